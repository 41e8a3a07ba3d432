"""Clock jumps of two hours under a live fleet: nobody is down for long, and nothing is lost. Real processes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alphaedge.edge.store.learned_mark import read_learned_mark

from .hostile import EdgeLog, alive_peers, peer, status
from .processes import BATCH, EVERY, Edge, events, fleet_of, send, teach, tell, wait_for
from .wall_clock import WallClock

NAMES = ("berlin", "bonn", "boston")
TWO_HOURS = 7200
UP_AGAIN_SECONDS = 10.0


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    """The clock of boston."""
    return WallClock(tmp_path / "clock")


def test_the_clock_of_a_process_can_be_set_while_it_runs(clock: WallClock) -> None:
    program = "import time, datetime, sys\nfor _ in sys.stdin: print(time.time(), datetime.datetime.now().timestamp())"
    with clock.use():
        process = subprocess.Popen(
            [sys.executable, "-uc", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    assert process.stdin is not None
    assert process.stdout is not None
    shown = []
    with process:
        for seconds in (0, 10 * TWO_HOURS, -10 * TWO_HOURS):
            clock.set(seconds)
            process.stdin.write("\n")
            process.stdin.flush()
            shown.append([float(word) for word in process.stdout.readline().split()])
        process.stdin.close()
    for position in (0, 1):
        assert shown[1][position] - shown[0][position] > 9 * TWO_HOURS
        assert shown[2][position] - shown[0][position] < -9 * TWO_HOURS


@pytest.fixture
def edges(tmp_path: Path, clock: WallClock, edge_log: EdgeLog) -> Iterator[dict[str, Edge]]:
    """Three edges; boston has a clock of its own."""
    with edge_log.capture(), fleet_of(tmp_path, [(name, "DE") for name in NAMES]) as made:
        by_name = dict(zip(NAMES, made, strict=True))
        by_name["boston"].kill()
        with clock.use():
            by_name["boston"].start()
        yield by_name


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("jump", [TWO_HOURS, -TWO_HOURS])
def test_an_edge_whose_clock_jumps_is_up_again_within_10_s_of_the_correction_and_loses_nothing(
    edges: dict[str, Edge], clock: WallClock, edge_log: EdgeLog, jump: int
) -> None:
    boston = edges["boston"]

    def all_see_all() -> bool:
        return all(alive_peers(edge) == set(NAMES) - {name} for name, edge in edges.items())

    wait_for(all_see_all, "every edge to see every other")
    teach(boston, 1, seed=1)
    waiting = send(boston, events(BATCH * EVERY, seed=2))  # predicted by the right clock, labelled by the wrong one

    for number, offset in enumerate((jump, 0)):
        clock.set(offset)
        wait_for(lambda: abs(peer(edges["berlin"], "boston").clock_skew - offset) < 60, "the skew to be measured")  # noqa: B023
        wait_for(all_see_all, "every edge to see every other", UP_AGAIN_SECONDS)
        before = read_learned_mark(boston.folder / "data").newest
        assert tell(boston, waiting)["accepted"] == len(waiting)
        wait_for(
            lambda: read_learned_mark(boston.folder / "data").newest == before + len(waiting),  # noqa: B023
            "boston to learn what it predicted before its clock jumped",
        )
        waiting = send(boston, events(BATCH * EVERY, seed=10 + number))
        boston.kill()
        with clock.use():
            boston.start()
        wait_for(all_see_all, "every edge to see every other after a restart", UP_AGAIN_SECONDS)
        for seed, edge in enumerate(edges.values()):
            teach(edge, 1, seed=100 * number + seed)
    assert tell(boston, waiting)["accepted"] == len(waiting), "predictions from before the correction"
    said = [event["of"] for event in edge_log.events(event="clock_is_off")]
    assert set(said) == {"boston"}, "the majority tells whose clock it is"
    assert status(boston).incarnation >= 4
