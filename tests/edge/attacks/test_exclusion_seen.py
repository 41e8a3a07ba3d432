"""What an operator sees of a member whose model does harm, with real edges: the words, the metric, the event."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import torch

from alphaedge.monitoring.client import FleetClient

from ..hostile import EdgeLog, Mallory, forge, lie
from ..processes import CONFIG, Edge, fleet_of, teach, wait_for
from ..serving.test_metrics import metrics, value


def scramble(tensors: dict[str, torch.Tensor]) -> None:
    """A model of plausible size that knows nothing."""
    own = tensors["dense"]
    tensors["dense"] = 20 * own.std() * torch.randn(own.shape, generator=torch.Generator().manual_seed(0))


def shown(edge: Edge) -> tuple[str, dict[str, str]]:
    """What ``alphaedge status`` prints, and the states of berlin's peers in its JSON."""
    command = [sys.executable, "-m", "alphaedge", "status", edge.url]
    table = subprocess.run(command, capture_output=True, text=True).stdout
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)
    return table, {one["edge"]: one["peer_states"] for one in found["edges"]}["berlin"]


def test_a_member_that_does_harm_is_shown_as_excluded_with_the_reason(tmp_path: Path) -> None:
    method = CONFIG["method"] | {"trial": True}
    log = EdgeLog(tmp_path / "log")
    with contextlib.ExitStack() as stack:
        with log.capture():
            edges = stack.enter_context(fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")], method=method))
        mallory = stack.enter_context(Mallory(tmp_path / "certs", edges))
        mallory.pull = lie(lambda answer: forge(answer, scramble))
        berlin, rounds = edges[0], iter(range(10_000))

        def is_shown() -> bool:
            # The reason changes with every trial, also between two looks: each look is preceded by a batch.
            for place, edge in enumerate(edges):
                teach(edge, 1, seed=10 * next(rounds) + place)
            table, states = shown(berlin)
            state = states.get("mallory", "")
            lines = [line for line in table.splitlines() if line.split()[:2] == ["berlin", "mallory"]]
            return state.startswith("excluded: worse than alone by ") and any(state in line for line in lines)

        wait_for(is_shown, "alphaedge status to show that berlin excludes mallory, with the reason")
        logged = log.reasons(edge="berlin", event="peer_excluded", peer="mallory")
        assert any(one.startswith("worse than alone by ") for one in logged)
        assert value(metrics(berlin), "alphaedge_peer_excluded", peer="mallory", region="XX") == 1
        events = [event for frame in FleetClient(berlin.url).fetch_fleet().frames for event in frame.events]
        # It may have been excluded for another reason first.
        assert any(event.describe().startswith("berlin excluded mallory: ") for event in events)
