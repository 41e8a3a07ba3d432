"""Bytes of a pull between live edges over the MovieLens stream, as a share of the sender's whole model.

Ten edges live through the whole stream, each with its own numbering of ids; every request and answer is packed as it
goes over the wire and unpacked on the other side. Whole model: the dense part and all rows that the sender has
published, as float32. Counted are requests (which say keys) and answers with all their headers.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch

from alphaedge.core.gradients import OneAtATime
from alphaedge.core.methods import AlphaEdge
from alphaedge.core.model import Model
from alphaedge.data import movielens
from alphaedge.data.stream import Dataset
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.edge.inputs.lookup import NOBODY, named
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.cold_start import blend
from alphaedge.edge.learning.exchange import HeldModel
from alphaedge.edge.learning.learner import Examples, Learner
from alphaedge.edge.peers.pulls import Pulls
from alphaedge.simulation.config import Settings
from benchmarks.common import arguments, report

FIRST_SIGHT = "rows of new ids"
SCHEMA, SECRET = "0123456789abcdef", b"a secret of the fleet"


@final
@dataclass
class Counts:
    """Sums over pulls."""

    pulls: int = 0
    request: int = 0
    answer: int = 0
    whole: int = 0

    def add(self, other: "Counts") -> None:
        """More of them."""
        self.pulls, self.request = self.pulls + other.pulls, self.request + other.request
        self.answer, self.whole = self.answer + other.answer, self.whole + other.whole

    def per_pull(self, pulls: "Counts") -> float:
        """Bytes both ways, for each of these pulls."""
        return (self.request + self.answer) / pulls.pulls

    @property
    def share(self) -> float:
        """Bytes both ways as a share of whole models."""
        return (self.request + self.answer) / self.whole


@final
@dataclass
class Edge:
    """A live edge without its processes."""

    learner: Learner
    pulls: Pulls
    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))


def live(data: Dataset, settings: Settings, *, half: bool) -> dict[str, Counts]:
    """All edges through the stream; sums over pulls, by who was asked."""
    torch.manual_seed(0)
    first = settings.base.make(data)
    start = first.module.state_dict()
    method = AlphaEdge()
    edges: dict[str, Edge] = {}
    for number in range(len(data.streams)):
        model = settings.base.make(data)
        model.module.load_state_dict(start)
        rows = [table.rows for table in model.tables]
        name = str(number)
        learner = Learner(OneAtATime(model), method, settings.online, name=name, seed=0, capacities=rows)
        edges[name] = Edge(learner, Pulls(learner, SCHEMA, half=half))
    for edge in edges.values():
        edge.learner.join(list(edges))
    keys = _keys(data, first)
    for number, batch in _in_order(data, settings.size):
        stream, part = data.streams[number], slice(batch * settings.size, (batch + 1) * settings.size)
        inputs = [keys[f][stream.inputs[f][part]] if f in keys else stream.inputs[f][part] for f in first.fields]
        me = edges[str(number)]
        _meet_strangers(me, edges, inputs)
        me.learner.learn(Examples(inputs, stream.labels[part]))
        if me.learner.due:
            _aggregate(me, edges)
    found: dict[str, Counts] = defaultdict(Counts)
    for edge in edges.values():
        for kind, count in edge.counts.items():
            found[kind].add(count)
    return found


def _keys(data: Dataset, model: Model) -> dict[str, torch.Tensor]:
    """Ids as a fleet knows them, by field."""
    ids = {model.fields[f] for table in model.tables for f in table.fields}
    sizes = {f.name: f.size for f in data.fields}
    return {name: torch.tensor([key_of(i, SECRET) for i in range(sizes[name])]) for name in ids}


def _in_order(data: Dataset, size: int) -> Sequence[tuple[int, int]]:
    """(edge, number) of all batches, in the order of their last events."""
    moments = [
        (float(stream.times[(number + 1) * size - 1]), edge, number)
        for edge, stream in enumerate(data.streams)
        for number in range(len(stream) // size)
    ]
    return [(edge, number) for _, edge, number in sorted(moments)]


def _meet_strangers(me: Edge, edges: dict[str, Edge], inputs: Sequence[torch.Tensor]) -> None:
    """Ask the neighbours about ids that are new here, as a live edge does when a prediction is asked for."""
    learner = me.learner
    _, named_keys = named(learner.model, inputs)
    unknown = [
        [k for k in keys.flatten().tolist() if k != NOBODY and k not in table.numbering]
        for table, keys in zip(learner.tables, named_keys, strict=True)
    ]
    picked = [torch.tensor(keys, dtype=torch.long) for keys in unknown]
    ready = [j for j in learner.links.neighbours if edges[j].learner.publication.number > 0]
    if not any(unknown) or not ready:
        return
    pulls = {}
    for peer in ready:
        asked = me.pulls.ask_for_rows(picked)
        answer = edges[peer].pulls.answer_rows(asked.data)
        pulls[peer] = me.pulls.believe(peer, asked, answer)
        me.counts[FIRST_SIGHT].add(Counts(1, len(asked.data), len(answer), _whole(edges[peer])))
    for one in blend({peer: learner.links.known[peer].weight for peer in ready}, pulls):
        learner.adopt(*one)


def _whole(edge: Edge) -> int:
    """Bytes of an edge's whole model."""
    rows = sum(int((t.version > 0).sum()) * t.published.shape[1] for t in edge.learner.tables)
    return 4 * (edge.learner.fleet.dense.shape[1] + rows)


def _aggregate(me: Edge, edges: dict[str, Edge]) -> None:
    learner = me.learner
    learner.publish()
    answered = [j for j in learner.links.neighbours if edges[j].learner.publication.number > 0]
    for peer in answered:
        link, other = learner.links.known[peer], edges[peer]
        kind = "newcomer" if link.publication < 0 else "known peer"
        asked = me.pulls.ask(peer)
        answer = other.pulls.answer(learner.name, asked.data)
        pull = me.pulls.believe(peer, asked, answer)
        learner.held.setdefault(peer, HeldModel(learner.fleet.dense[0], learner.tables)).take(pull, learner.tables)
        me.counts[kind].add(Counts(1, len(asked.data), len(answer), _whole(other)))
    learner.aggregate(answered)
    learner.choose(list(edges), {j: edges[j].learner.topology for j in learner.links.neighbours})


def main() -> None:
    """Print the shares and write the figures."""
    options = arguments("Bytes of a pull as a share of the sender's whole model.")
    if options.quick:
        settings = Settings(store=Store(edges=6, events=2000))
        data = synthetic(settings.store)
    else:
        settings = Settings(data="movielens")
        data = movielens.load()
    rows, figures = [], {}
    for half in (False, True):
        found = live(data, settings, half=half)
        every = Counts()
        for kind, count in found.items():
            if kind == FIRST_SIGHT:  # no pulls: a few rows each, when an id appears
                continue
            every.add(count)
            if not half and kind == "known peer":
                figures["known_peer_over_full"] = count.share
        figures["bf16_over_full" if half else "changed_over_full"] = every.share
        figures["bf16_first_sight_bytes" if half else "first_sight_bytes"] = found[FIRST_SIGHT].per_pull(every)
        for kind, count in [*sorted(found.items()), ("all pulls", every)]:
            rows.append(
                [
                    f"{'bfloat16' if half else 'float32'}, {kind}",
                    f"{count.pulls:,}",
                    f"{count.request / count.pulls:,.0f}",
                    f"{count.answer / count.pulls:,.0f}",
                    f"{count.whole / count.pulls:,.0f}",
                    f"{count.share:.3f}",
                ]
            )
    report(
        "Bytes of a pull", ["pull", "pulls", "request", "answer", "whole model", "share"], rows, figures, options.json
    )


if __name__ == "__main__":
    main()
