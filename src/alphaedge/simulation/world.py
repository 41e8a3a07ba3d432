"""The state of a simulation: models, publications, who knows whom, and where each edge stands.

Several runs (seeds) of one method can share one world: edge i of run r has the number r * n + i, and no edge has peers
in another run. "Local" numbers are those within a run. A world holds the edges of one shard (``simulation.shards``),
which are all of them as a rule: an "edge" is counted from the first one that it holds.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor

from alphaedge.core.gradients import Gradients
from alphaedge.core.links import Links
from alphaedge.core.methods import Method
from alphaedge.core.state import ModelState
from alphaedge.simulation.adversaries import Adversaries
from alphaedge.simulation.batches import Batches
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.named_ids import NamedIds
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.releases import Releases, Revealed
from alphaedge.simulation.run_log import RunLog
from alphaedge.simulation.shards import OneShard, Shards, gather
from alphaedge.simulation.timeline import Timeline

Phase = Literal["to join", "to train", "to aggregate", "done"]
Announcement = tuple[float, dict[int, float]]  # a moment, and the shares of an edge's neighbours then


def generations(method: Method, conditions: Conditions, timelines: Sequence[Timeline]) -> int:
    """How many of an edge's last publications somebody may still read."""
    # Of edges that aggregate side by side, one may read another as it was before it published; and so may a hostile
    # edge, whose victim need not be a neighbour that it waits for.
    side_by_side = method.publish == "trained" or conditions.adversaries > 0
    earlier = int(side_by_side and timelines[0].clock == "event-time")
    return conditions.staleness + 1 + earlier + max(t.publications_in(method.pull_ahead) for t in timelines)


@final
class World:
    """Everything that the engine moves. ``timelines`` and ``seeds`` have one entry a run.

    models: of the edges, and once more for the home models where the method has them.
    parts: the numbers of the edges that each shard holds; None if this one holds all. guests: how many publications of
    other shards there is room for from the start.
    """

    def __init__(
        self,
        *,
        method: Method,
        batches: Batches,
        timelines: Sequence[Timeline],
        seeds: Sequence[int],
        models: ModelState,
        gradients: Gradients,
        conditions: Conditions,
        log: RunLog,
        shards: Shards | None = None,
        parts: Sequence[range] | None = None,
        guests: int = 0,
    ) -> None:
        method = method.suited(gradients.model)
        self.method, self.batches, self.timelines, self.seeds = method, batches, timelines, seeds
        self.gradients, self.conditions, self.log = gradients, conditions, log
        self.n = len(timelines[0].first)  # edges of one run
        self.stack = models  # mixed and home models train as one stack
        self.home: ModelState | None = None
        if method.home:
            models, self.home = models.halves()
        self.models = models
        # What the mixed models were before they trained on the batches that wait for the next mix.
        self.before = models.copy() if method.train_ahead and method.aggregation.uses_peers else None
        self.lazy_rows = False  # whether training moves only the rows that its batches name: the engine knows
        total, held, self.device = self.n * len(seeds), len(models), models.device
        self.shards, self.parts = shards or OneShard(), parts or [range(total)]
        self.own = self.parts[self.shards.rank]  # the numbers of the edges here
        shared = method.statistics == "mixed" or (conditions.bootstrap and bool(conditions.joins))
        statistics = gradients.model.statistics() if shared else ()
        self.releases: Releases | None = None
        if method.privacy is not None:
            self.releases = Releases(method.privacy, gradients.model, models, batches)
        told = [method.told(table) for table in gradients.model.tables]
        depth = generations(method, conditions, timelines)
        budget = method.min_change, method.publish_bytes
        self.published = Publications(models, depth, statistics, told, guests, method.precision, *budget)
        # These are of every edge of the fleet, by its number; all else is of the edges here.
        self.published_at: list[list[float]] = [[] for _ in range(total)]  # the moments, from the first on
        self.announced: list[list[Announcement]] = [[(-1.0, {})] for _ in range(total)]  # the last two of each edge
        self.outages = [
            conditions.draw_outages(e, 2 + max(timelines[r].last) // method.aggregate_every, seeds[r])
            for r in range(len(timelines))
            for e in range(self.n)
        ]
        hostile = [conditions.draw_adversaries(self.n, seed) for seed in seeds]
        self.adversaries = Adversaries(conditions.make_attack(), hostile, self.n, self.own, models.dense)
        self.records = torch.zeros(held, dtype=torch.long, device=self.device)  # that each edge has learned from
        self.trained = [
            t.value.new_zeros(t.value.shape[:2], dtype=torch.bool) for t in models.tables
        ]  # since publishing
        self.named = NamedIds(method.disclosure, gradients.model, models)
        self.links: list[Links[int]] = [Links.start([], method.aggregation.memory) for _ in range(held)]
        self.aggregations = torch.zeros(held, dtype=torch.long, device=self.device)
        self.phase: list[Phase] = ["to join"] * held
        here = [self.where(edge) for edge in range(held)]
        self.at = [timeline.first[local] for timeline, local in here]  # the next batch to predict
        self.moment = [timeline.join[local] for timeline, local in here]  # of the event that an edge waits for
        self.pending: list[list[int]] = [[] for _ in range(held)]  # revealed batches still to be trained on

    def where(self, edge: int) -> tuple[Timeline, int]:
        """An edge's timeline and its local number."""
        run, local = divmod(self.own[edge], self.n)
        return self.timelines[run], local

    def base(self, edge: int) -> int:
        """The number of the first edge of an edge's run."""
        return self.own[edge] - self.own[edge] % self.n

    def read_by(self, edge: int) -> list[int]:
        """The numbers of the edges that an edge reads in a round: its neighbours, and the others that it hears."""
        base, links = self.base(edge), self.links[edge]
        return [base + j for j in (*links.neighbours, *links.others)]

    def rows_at(self, edges: Sequence[int], peers: Sequence[Sequence[int]]) -> list[Tensor]:
        """Where peers, by their numbers [g, P], have the rows of g edges: per id table [g, P, C + 1]."""
        mine = torch.tensor([self.own[edge] for edge in edges], device=self.device)
        theirs = torch.tensor(peers, device=self.device)
        return [own.places(mine, theirs) for own in self.batches.own_rows]

    def span_end(self, edge: int) -> tuple[int | None, int]:
        """The edge's next aggregation batch, if any, and the batch before which its next span stops."""
        timeline, local = self.where(edge)
        end = timeline.next_aggregation(local, self.at[edge])
        return end, timeline.last[local] if end is None else end + 1

    def rng(self, edge: int, purpose: str) -> random.Random:
        """An edge's randomness for one purpose at this aggregation; the same whatever else runs beside it."""
        run, local = divmod(self.own[edge], self.n)
        return random.Random(f"{self.seeds[run]}/{local}/{int(self.aggregations[edge])}/{purpose}")

    def candidates(self, edge: int) -> Sequence[int]:
        """Local numbers of the edges that are there at the edge's moment."""
        (timeline, _), base, moment = self.where(edge), self.base(edge), self.moment[edge]
        if not timeline.churn and not self.log.stopped:
            return range(self.n)
        return [j for j in range(self.n) if timeline.member(j, moment) and base + j not in self.log.stopped]

    def newest(self, edge: int, peers: Sequence[int]) -> list[int]:
        """The newest publications of an edge's peers, by their local numbers, when it pulls; 0 for none."""
        timeline, local = self.where(edge)
        moment = self.moment[edge]
        if self.method.pull_ahead:
            moment = timeline.moment(local, max(timeline.first[local], self.at[edge] - 1 - self.method.pull_ahead))
        base = self.base(edge)
        return [self.newest_at(base + j, moment) for j in peers]

    def newest_at(self, number: int, moment: float) -> int:
        """The newest publication of the edge with that number at a moment; 0 for none."""
        return bisect_right(self.published_at[number], moment)

    def topology(self, edge: int) -> dict[int, dict[int, float]]:
        """What an edge's neighbours had announced of theirs at its moment, by local numbers."""
        base, moment = self.base(edge), self.moment[edge]
        found = {}
        for j in self.links[edge].neighbours:
            last, newest = self.announced[base + j][0], self.announced[base + j][-1]
            found[j] = (newest if newest[0] <= moment else last)[1]
        return found

    def present(self, edge: int, peers: Sequence[int]) -> list[bool]:
        """Which of an edge's peers, by their local numbers, answer when it pulls."""
        base, last_published = self.base(edge), int(self.published.number[edge])
        if not self.conditions.down_edges_pull and self.outages[self.own[edge]][last_published]:
            return [False] * len(peers)
        there = self.candidates(edge)
        return [
            j in there and number > 0 and not self.outages[base + j][number]
            for j, number in zip(peers, self.newest(edge, peers), strict=True)
        ]

    def note_trained(self, edges: Tensor, numbers: Tensor) -> None:
        """Note that edges [k] have learned from batches [k, S], -1 for none."""
        self.records[edges] += (numbers >= 0).sum(1) * self.batches.size
        place, column = (numbers >= 0).nonzero(as_tuple=True)
        which = edges[place].unsqueeze(1)
        for flags, rows in zip(self.trained, self.batches.rows(which.flatten(), numbers[place, column]), strict=True):
            flags[which, rows] = True
            flags[:, -1] = False

    def keep(self, edges: Tensor, numbers: Tensor) -> None:
        """Keep what mixed models are before they train on batches [k, S], -1 for none, that wait for the mix."""
        if self.before is not None:
            self.before.copy_edges(edges, self.models, self._moved(edges, numbers))

    def _moved(self, edges: Tensor, numbers: Tensor) -> list[Tensor] | None:
        """The rows that training on batches [k, S] moves, and maybe some more, per table [k, C]; None for all."""
        if not self.lazy_rows:
            return None
        named = self.batches.rows(edges.repeat_interleave(numbers.shape[1]), numbers.clamp(min=0).flatten())
        return [rows.view(len(edges), -1) for rows in named]

    def go_back(self, edges: Tensor) -> None:
        """Make mixed models what they were before the batches that wait for the mix, if they have trained on them."""
        if self.before is not None:
            numbers = torch.tensor([self.pending[e] for e in edges.tolist()], device=self.device)
            self.models.copy_edges(edges, self.before, self._moved(edges, numbers))
            self.records[edges] -= self.method.weight_batches * self.batches.size

    def publish(self, edges: list[int]) -> None:
        """Let edges publish who their neighbours are, and their models if they have learned anything."""
        for edge in edges:
            shares = self.links[edge].shares() if self.releases is None else {}
            self._announce(self.own[edge], (self.moment[edge], shares))
        if self.releases is not None:
            learned = self.releases.step([self._revealed(edge) for edge in edges])
            models, trained, records = self.releases.models, self.releases.told(), self.releases.records()
        else:
            learned = [e for e in edges if int(self.records[e]) > 0]
            models, trained, records = self.models, self.trained, self.records
        if learned:
            some = torch.tensor(learned, device=self.device)
            self.published.publish(some, models, trained, records, () if self.named.every_id else self.named.since)
            for edge in learned:
                self.published_at[self.own[edge]].append(self.moment[edge])
            self.adversaries.forge(self, learned)
        told = {self.own[edge]: self.announced[self.own[edge]][-1] for edge in edges}
        for rank, (news, published) in enumerate(gather(self.shards, (told, [self.own[e] for e in learned]))):
            if rank != self.shards.rank:
                for number, announcement in news.items():
                    self._announce(number, announcement)
                for number in published:
                    self.published_at[number].append(news[number][0])

    def _revealed(self, edge: int) -> Revealed:
        timeline, local = self.where(edge)
        newest = self.at[edge] - 1 - self.conditions.delay
        name = f"{self.seeds[self.own[edge] // self.n]}/{local}"
        return Revealed(edge, timeline.first[local], newest, timeline.times[local], name)

    def _announce(self, number: int, announcement: Announcement) -> None:
        self.announced[number] = [self.announced[number][-1], announcement]
