"""Bytes of a pull between live edges over the MovieLens stream, as a share of the sender's whole model.

Ten edges learn from the whole stream, each with its own numbering of ids. Every request and answer is packed as on the
wire and unpacked on the other side. Counted are requests, which carry keys, and answers, both with their headers. A
whole model is the dense part and all rows that the sender has published, as float32.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch

from alphaedge.core.gradients import OneAtATime
from alphaedge.core.methods import Method, alphaedge
from alphaedge.core.model import Model
from alphaedge.data import movielens
from alphaedge.data.stream import Dataset
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.edge.inputs.lookup import NO_KEY, compact_keys
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.cold_start import weighted_rows
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.peers.pulls import Pulls
from alphaedge.edge.trust.wire_secrets import WireSecrets
from alphaedge.simulation.config import Settings
from benchmarks.common import arguments, report

NEWCOMER, KNOWN_PEER, NEW_IDS = "newcomer", "known peer", "rows of new ids"  # kinds of requests
SCHEMA, SECRET = "0123456789abcdef", b"a secret of the fleet"
FLOAT32_BYTES = 4
MOVED = 0.2  # the threshold on changes that is measured besides
METHODS = {
    "full": alphaedge(precision="full"),
    "bfloat16": alphaedge(precision="bfloat16"),
    "int8": alphaedge(precision="int8"),
    "int8, moved": alphaedge(precision="int8", min_change=MOVED),
}
FIGURES = {  # the share of an average pull, and bytes of the rows of new ids
    "full": ("changed_over_full", "first_sight_bytes"),
    "bfloat16": ("bf16_over_full", "bf16_first_sight_bytes"),
    "int8": ("int8_over_full", "int8_first_sight_bytes"),
    "int8, moved": ("int8_moved_over_full", "int8_moved_first_sight_bytes"),
}


@final
@dataclass
class Traffic:
    """Sums over requests and their answers. model_bytes: of the whole models of the answering edges."""

    requests: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0
    model_bytes: int = 0

    def add(self, other: "Traffic") -> None:
        """Add the sums of other requests."""
        self.requests += other.requests
        self.request_bytes += other.request_bytes
        self.answer_bytes += other.answer_bytes
        self.model_bytes += other.model_bytes

    @property
    def bytes(self) -> int:
        """Bytes in both directions."""
        return self.request_bytes + self.answer_bytes

    @property
    def share(self) -> float:
        """Bytes in both directions as a share of the whole models."""
        return self.bytes / self.model_bytes


@final
@dataclass
class Edge:
    """A live edge without its processes. traffic: of its own requests, by kind."""

    learner: Learner
    pulls: Pulls
    traffic: dict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))

    def model_bytes(self) -> int:
        """Size of the published model."""
        rows = sum(int((t.version > 0).sum()) * t.published.shape[1] for t in self.learner.tables)
        return FLOAT32_BYTES * (self.learner.mixed.dense.shape[1] + rows)

    def count(self, kind: str, request: bytes, answer: bytes, answering: "Edge") -> None:
        """Count one request and its answer."""
        self.traffic[kind].add(Traffic(1, len(request), len(answer), answering.model_bytes()))


def measure(data: Dataset, settings: Settings, method: Method) -> dict[str, Traffic]:
    """Let all edges learn from the stream by a method; return their traffic by kind."""
    torch.manual_seed(0)
    first = settings.base.make(data)
    edges = _start_edges(data, settings, first, method)
    keys = _keys_by_field(data, first)
    for number, batch in _batches_in_order(data, settings.size):
        stream, part = data.streams[number], slice(batch * settings.size, (batch + 1) * settings.size)
        inputs = [keys[f][stream.inputs[f][part]] if f in keys else stream.inputs[f][part] for f in first.fields]
        edge = edges[str(number)]
        _adopt_new_ids(edge, edges, inputs)
        edge.learner.learn(Examples(inputs, stream.labels[part]))
        if edge.learner.due:
            _run_round(edge, edges)
    total: dict[str, Traffic] = defaultdict(Traffic)
    for edge in edges.values():
        for kind, traffic in edge.traffic.items():
            total[kind].add(traffic)
    return total


def _start_edges(data: Dataset, settings: Settings, first: Model, method: Method) -> dict[str, Edge]:
    """Create one edge per stream, all with the parameters of the first model."""
    parameters = first.module.state_dict()
    edges: dict[str, Edge] = {}
    for number in range(len(data.streams)):
        model = settings.base.make(data)
        model.module.load_state_dict(parameters)
        capacities = [table.rows for table in model.tables]
        learner = Learner(OneAtATime(model), method, settings.online, name=str(number), seed=0, capacities=capacities)
        edges[learner.name] = Edge(learner, Pulls(learner, SCHEMA, WireSecrets(SECRET)))
    for edge in edges.values():
        edge.learner.join(list(edges))
    return edges


def _keys_by_field(data: Dataset, model: Model) -> dict[str, torch.Tensor]:
    """Return the keys of all ids, by field."""
    names = {model.fields[f] for table in model.tables for f in table.fields}
    sizes = {f.name: f.size for f in data.fields}
    return {name: torch.tensor([key_of(i, SECRET) for i in range(sizes[name])]) for name in names}


def _batches_in_order(data: Dataset, size: int) -> Sequence[tuple[int, int]]:
    """Return (edge, number) of all batches, ordered by the time of their last event."""
    ends = [
        (float(stream.times[(number + 1) * size - 1]), edge, number)
        for edge, stream in enumerate(data.streams)
        for number in range(len(stream) // size)
    ]
    return [(edge, number) for _, edge, number in sorted(ends)]


def _adopt_new_ids(edge: Edge, edges: dict[str, Edge], inputs: Sequence[torch.Tensor]) -> None:
    """Ask the neighbours for the rows of new ids, as a live edge does when it predicts."""
    learner = edge.learner
    _, keys_by_table = compact_keys(learner.model, inputs)
    unknown = [
        [key for key in keys.flatten().tolist() if key != NO_KEY and key not in table.numbering]
        for table, keys in zip(learner.tables, keys_by_table, strict=True)
    ]
    ready = _published_neighbours(edge, edges)
    if not any(unknown) or not ready:
        return
    wanted = [torch.tensor(keys, dtype=torch.long) for keys in unknown]
    pulled = {}
    for peer in ready:
        pending = edge.pulls.request_rows(peer, wanted)
        answer = edges[peer].pulls.answer_rows(
            learner.name, *edges[peer].pulls.read_request(learner.name, pending.data)
        )
        pulled[peer] = edge.pulls.accept(peer, pending, answer)
        edge.count(NEW_IDS, pending.data, answer, edges[peer])
    for adopted in weighted_rows({peer: learner.links.known[peer].weight for peer in ready}, pulled):
        learner.adopt(*adopted)


def _published_neighbours(edge: Edge, edges: dict[str, Edge]) -> list[str]:
    return [j for j in edge.learner.links.neighbours if edges[j].learner.publication.number > 0]


def _run_round(edge: Edge, edges: dict[str, Edge]) -> None:
    """Publish, pull, mix and select."""
    learner = edge.learner
    learner.start_round()
    ready = _published_neighbours(edge, edges)
    for peer in ready:
        kind = NEWCOMER if learner.links.known[peer].publication < 0 else KNOWN_PEER
        pending = edge.pulls.request_model(peer)
        answer = edges[peer].pulls.answer_model(
            learner.name, *edges[peer].pulls.read_request(learner.name, pending.data)
        )
        pull = edge.pulls.accept(peer, pending, answer)
        learner.held.setdefault(peer, HeldModel(learner.mixed.dense[0], learner.tables)).take(pull, learner.tables)
        edge.count(kind, pending.data, answer, edges[peer])
    learner.mix(ready)
    learner.finish_round(list(edges), {j: edges[j].learner.topology for j in learner.links.neighbours})


def main() -> None:
    """Print the shares and write the figures."""
    options = arguments(
        "Bytes of a pull as a share of the sender's whole model.",
        rows={"type": int, "metavar": "N", "help": "learn from so many events after the first quarter, not from all"},
        only={"choices": list(FIGURES), "help": "measure only this setting"},
    )
    if options.quick:
        settings = Settings(store=Store(edges=4, events=2000))
        data = synthetic(settings.store)
    else:
        settings = Settings(data="movielens")
        data = movielens.load().window(options.rows)
    rows, figures = [], {}
    for name in [options.only] if options.only else FIGURES:
        by_kind = measure(data, settings, METHODS[name])
        pulls = Traffic()
        for kind in (NEWCOMER, KNOWN_PEER):
            pulls.add(by_kind[kind])
        share, new_ids = FIGURES[name]
        if name == "full":
            figures["known_peer_over_full"] = by_kind[KNOWN_PEER].share
        figures |= {share: pulls.share, new_ids: by_kind[NEW_IDS].bytes / pulls.requests}
        for kind, traffic in [*sorted(by_kind.items()), ("all pulls", pulls)]:
            rows.append(
                [
                    f"{name}, {kind}",
                    f"{traffic.requests:,}",
                    f"{traffic.request_bytes / traffic.requests:,.0f}",
                    f"{traffic.answer_bytes / traffic.requests:,.0f}",
                    f"{traffic.model_bytes / traffic.requests:,.0f}",
                    f"{traffic.share:.3f}",
                ]
            )
    headers = ["pull", "pulls", "request", "answer", "whole model", "share"]
    report("Bytes of a pull", headers, rows, figures, options.json)


if __name__ == "__main__":
    main()
