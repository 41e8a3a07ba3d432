"""The simulator's loop: all edges train a stretch side by side, then aggregate in time order.

Several runs (seeds) of one method can share one fleet: edge i of run r is edge r * n + i, and nobody has peers in
another run. Everything that learns is in ``core``; here is only who does it when, and with what the world does to it.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal, final

import torch
from torch import Tensor, vmap

from alphaedge.core.aggregation import Alone, ByRecords, Fetched, Learned, Uniform, Weights, aggregate, shares
from alphaedge.core.exchange import traffic
from alphaedge.core.fleet import Fleet
from alphaedge.core.gradients import Gradients
from alphaedge.core.home import combine
from alphaedge.core.links import Links, stack, unstack
from alphaedge.core.methods import Method
from alphaedge.core.online import Online
from alphaedge.core.selection import View
from alphaedge.simulation.batches import Batches
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.published import Published
from alphaedge.simulation.record import Mix, Progress, Record
from alphaedge.simulation.stretch import Stretch, run_stretch
from alphaedge.simulation.timeline import Timeline, levels

# Edges stepped at once; more falls out of the cache (see benchmarks/scaling).
BLOCK: Final = 256

State = Literal["to join", "to train", "to aggregate", "done"]


@final
class Engine:
    """Runs of one method on one model, stacked: ``timelines``, ``seeds`` and ``starts`` have one entry a run."""

    def __init__(
        self,
        *,
        method: Method,
        batches: Batches,
        timelines: Sequence[Timeline],
        seeds: Sequence[int],
        fleet: Fleet,
        gradients: Gradients,
        online: Online,
        conditions: Conditions,
        record: Record,
        same_pass: bool,
        block: int = BLOCK,
    ) -> None:
        self.method, self.batches, self.timelines, self.seeds = method, batches, timelines, seeds
        self.fleet, self.gradients, self.online, self.conditions = fleet, gradients, online, conditions
        self.record, self.same_pass, self.block = record, same_pass, block
        self.n = len(timelines[0].first)  # edges of one run
        total = self.n * len(timelines)
        self.home = fleet.copy() if method.home else None
        self.lead = torch.zeros(total, dtype=fleet.dense.dtype)
        self.losses: dict[int, list[tuple[float, float]]] = {}
        statistics = gradients.model.statistics() if method.statistics == "mixed" else ()
        self.published = Published(fleet, conditions.staleness + 1, statistics)
        self.records = torch.zeros(total, dtype=torch.long)
        self.trained = [torch.zeros(t.value.shape[:2], dtype=torch.bool) for t in fleet.tables]
        self.known_since = [torch.full(t.value.shape[:2], -1, dtype=torch.long) for t in fleet.tables]
        self.links = [Links.start([], self._start_weight()) for _ in range(total)]
        self.topology: list[dict[int, float]] = [{} for _ in range(total)]
        self.aggregations = [0] * total
        self.outages = [
            conditions.draw_outages(e, 2 + max(timelines[r].last) // method.aggregate_every, seeds[r])
            for r in range(len(timelines))
            for e in range(self.n)
        ]
        self.state: list[State] = ["to join"] * total
        self.at = [first for t in timelines for first in t.first]  # the next batch to predict
        self.moment = [join for t in timelines for join in t.join]  # of the event an edge waits for
        self.pending: list[list[int]] = [[] for _ in range(total)]  # batches to train on first
        self.pending_home: list[list[int]] = [[] for _ in range(total)]

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self, progress: Callable[[Progress], None] = lambda _: None) -> Record:
        """Run every stream to its end."""
        while due := self._due():
            for group in due:
                joining = [e for e in group if self.state[e] == "to join"]
                for edge in joining:
                    self._join(edge)
                self._aggregate([e for e in group if e not in joining])
            self._train()
            done = self.record.done
            score = self.record.scores[done].nanmean() if bool(done.any()) else torch.tensor(torch.nan)
            progress(Progress(int(done.sum()), self._expected(), None if score.isnan() else float(score)))
        return self.record

    def _expected(self) -> int:
        return sum(last - first for t in self.timelines for first, last in zip(t.first, t.last, strict=True))

    def _due(self) -> list[list[int]]:
        """Groups of edges whose next event may happen now: no earlier one waits for untrained batches."""
        merged: list[list[int]] = []
        for r, timeline in enumerate(self.timelines):
            waiting = [e for e in range(r * self.n, (r + 1) * self.n) if self.state[e] in ("to join", "to aggregate")]
            if not waiting:
                continue
            if isinstance(self.method.aggregation, Alone):
                groups = [waiting]
            else:
                horizon = min(self._following(e, timeline) for e in waiting)
                soonest = min(self.moment[e] for e in waiting)
                when = {e: self.moment[e] for e in waiting if self.moment[e] < horizon or self.moment[e] == soonest}
                everybody = list(range(r * self.n, (r + 1) * self.n))
                joins = {e for e in when if self.state[e] == "to join"}
                groups = levels(when, {e: everybody if e in joins else self._neighbours(e) for e in when})
            for depth, group in enumerate(groups):
                if depth == len(merged):
                    merged.append([])
                merged[depth] += group
        return merged

    def _following(self, edge: int, timeline: Timeline) -> float:
        local = edge % self.n
        return timeline.moment(local, timeline.next_aggregation(local, self.at[edge]))

    def _neighbours(self, edge: int) -> list[int]:
        base = edge - edge % self.n
        return [base + j for j in self.links[edge].neighbours]

    # -- joining -------------------------------------------------------------------------------------------------

    def _join(self, edge: int) -> None:
        timeline = self.timelines[edge // self.n]
        local, moment = edge % self.n, self.moment[edge]
        candidates = self._candidates(edge)
        self.state[edge] = "to train" if self.at[edge] < timeline.last[local] else "done"
        rng = self._rng(edge)
        self.links[edge] = Links.start(self.method.selection.first(candidates, rng), self._start_weight())
        self.topology[edge] = self.links[edge].shares()
        base = edge - local
        models = [j for j in candidates if self.published.number[base + j] > 0]
        if moment > 0 and self.conditions.bootstrap and models:
            source = torch.tensor([base + rng.choice(models)])
            slot, _ = self.published.slot(source, 0)
            self.fleet.dense[edge] = self.published.dense.view(-1, self.fleet.dense.shape[1])[slot[0]]
            for t, table in enumerate(self.fleet.tables):
                table.value[edge] = self.published.tables[t].view(-1, *table.value.shape[1:])[slot[0]]

    def _start_weight(self) -> float:
        return self.method.aggregation.start if isinstance(self.method.aggregation, Learned) else 1.0

    def _rng(self, edge: int) -> random.Random:
        run, local = divmod(edge, self.n)
        return random.Random(f"{self.seeds[run]}/{local}/{self.aggregations[edge]}")

    def _candidates(self, edge: int) -> list[int]:
        run, local = divmod(edge, self.n)
        base, moment = run * self.n, self.moment[edge]
        timeline = self.timelines[run]
        return [
            j
            for j in range(self.n)
            if j != local and timeline.member(j, moment) and base + j not in self.record.stopped
        ]

    # -- training ------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        """Let every edge that can run to the eve of its next aggregation."""
        edges = [e for e, state in enumerate(self.state) if state == "to train"]
        if not edges:
            return
        plans = {e: self._plan(e, self.pending[e]) for e in edges}
        home_plans = {e: self._plan(e, self.pending_home[e]) for e in edges} if self.home else {}
        mixed, home = Stretch.of(plans), Stretch.of(home_plans) if self.home else None
        for part in range(0, len(edges), self.block):
            piece = mixed.split(self.block)[part // self.block]
            twin = home.split(self.block)[part // self.block] if home else None
            self._run_piece(piece, twin)
        for edge in edges:
            timeline, local = self.timelines[edge // self.n], edge % self.n
            end = timeline.next_aggregation(local, self.at[edge])
            self.at[edge] = timeline.last[local] if end is None else end + 1
            self.moment[edge] = timeline.moment(local, end)
            self.state[edge] = "done" if end is None or edge in self.record.stopped else "to aggregate"
            self.pending[edge], self.pending_home[edge] = [], []

    def _plan(self, edge: int, pending: list[int]) -> tuple[list[int], list[int]]:
        """The (predicted, trained) batches of an edge's next stretch; it starts with what is still to be trained."""
        timeline, local = self.timelines[edge // self.n], edge % self.n
        end = timeline.next_aggregation(local, self.at[edge])
        stop = timeline.last[local] if end is None else end + 1
        first, delay, paused = timeline.first[local], self.conditions.delay, self.method.gathered
        lead = [-1] * max(0, self.method.gathered - len(pending))
        predicted = [-1] * self.method.gathered + list(range(self.at[edge], stop))
        trained = lead + pending
        for number in range(self.at[edge], stop):
            pausing = end is not None and number > end - paused and end - delay - paused + 1 >= first
            trained.append(-1 if pausing or number - delay < first else number - delay)
        return predicted, trained

    def _run_piece(self, stretch: Stretch, twin: Stretch | None) -> None:
        outputs = run_stretch(
            self.fleet, stretch, self.batches, self.gradients, self.online, same_pass=self.same_pass
        )
        self._note_rows(stretch)
        counts = (stretch.trained >= 0).sum(1) * outputs.shape[2]
        self.records[stretch.edges] += counts
        k, column = (stretch.predicted >= 0).nonzero(as_tuple=True)
        if not len(k):
            return
        edges, numbers = stretch.edges[k], stretch.predicted[k, column]
        places = self.batches.at_label[edges] + numbers
        taught = self.batches.get(edges, numbers).labels
        found = outputs[k, column]
        loss = vmap(self.gradients.model.loss.function)
        losses = loss(found, taught)
        if twin is not None and self.home is not None:
            alone = run_stretch(self.home, twin, self.batches, self.gradients, self.online, same_pass=self.same_pass)
            shift = alone.shape[1] - outputs.shape[1]
            alone = alone[k, column + shift]
            found = self._judge(stretch, k, column, found, alone, losses, loss(alone, taught))
        self._stop_the_broken(edges, losses)
        self.record.predicted(places, self.gradients.model.loss.link(found), self.batches.scored[places])

    def _note_rows(self, stretch: Stretch) -> None:
        """Note which id rows the edges have met and trained."""
        for numbers, training in ((stretch.predicted, False), (stretch.trained, True)):
            k, column = (numbers >= 0).nonzero(as_tuple=True)
            edges = stretch.edges[k]
            for t, rows in enumerate(self.batches.rows(edges, numbers[k, column])):
                if training:
                    self.trained[t][edges.unsqueeze(1), rows] = True
                    self.trained[t][:, -1] = False
                else:
                    since = self.known_since[t]
                    now = torch.tensor([self.aggregations[e] for e in edges.tolist()]).unsqueeze(1)
                    since[edges.unsqueeze(1), rows] = torch.where(
                        since[edges.unsqueeze(1), rows] < 0, now, since[edges.unsqueeze(1), rows]
                    )
                    since[:, -1] = -1

    def _judge(
        self, stretch: Stretch, k: Tensor, column: Tensor, mixed: Tensor, home: Tensor, mixed_loss: Tensor, home_loss: Tensor
    ) -> Tensor:
        """Let the judge say, batch by batch, what the pair predicts; it learns of a batch when it is revealed."""
        assert self.method.home is not None
        found = mixed.clone()
        for s in column.unique().tolist():
            which = column == s
            edges = stretch.edges[k[which]]
            share = self.method.home.share(self.lead[edges])
            found[which] = combine(share, mixed[which], home[which])
            pairs = list(zip(mixed_loss[which].tolist(), home_loss[which].tolist(), strict=True))
            for edge, pair in zip(edges.tolist(), pairs, strict=True):
                self.losses.setdefault(edge, []).append(pair)
            revealed = [self.losses[e].pop(0) if len(self.losses[e]) > self.conditions.delay else None for e in edges.tolist()]
            seen = torch.tensor([r is not None for r in revealed])
            if bool(seen.any()):
                late = torch.tensor([r for r in revealed if r is not None], dtype=self.lead.dtype)
                self.lead[edges[seen]] = self.method.home.update(self.lead[edges[seen]], late[:, 0], late[:, 1])
        return found

    def _stop_the_broken(self, edges: Tensor, losses: Tensor) -> None:
        broken = edges[~torch.isfinite(losses)].unique()
        for edge in broken.tolist():
            run, local = divmod(edge, self.n)
            self.record.stopped[edge] = (
                f"seed {self.seeds[run]}, edge {local}: its loss is no finite number any more; it stops here, after "
                f"aggregation {self.aggregations[edge]}, and the others go on"
            )

    # -- aggregation ---------------------------------------------------------------------------------------------

    def _aggregate(self, edges: list[int]) -> None:
        """The aggregations of some edges that do not wait for each other."""
        for edge in edges:
            end = self.at[edge] - 1
            revealed = list(range(end - self.conditions.delay - self.method.gathered + 1, end - self.conditions.delay + 1))
            timeline, local = self.timelines[edge // self.n], edge % self.n
            able = revealed[0] >= timeline.first[local]
            self.pending_home[edge] = revealed if able else []
            self.pending[edge] = revealed if able else []
            self.state[edge] = "to train" if self.at[edge] < timeline.last[local] else "done"
        if isinstance(self.method.aggregation, Alone):
            return
        lock_step = self.timelines[0].clock == "batch-index"
        learned = [e for e in edges if int(self.records[e]) > 0]
        if lock_step:
            self._publish(learned)
        able = [e for e in edges if self.pending[e]]
        chosen: dict[int, list[int]] = {}
        for part in range(0, len(able), self.block):
            chosen |= self._mix(able[part : part + self.block])
        for edge, neighbours in chosen.items():
            self.links[edge].switch(neighbours, self._rule_for_newcomers())
        for edge in able:
            self.topology[edge] = self.links[edge].shares()
            self.aggregations[edge] += 1
        if not lock_step:
            self._publish(learned)

    def _rule_for_newcomers(self) -> Learned:
        return self.method.aggregation if isinstance(self.method.aggregation, Learned) else Learned()

    def _publish(self, edges: list[int]) -> None:
        if edges:
            some = torch.tensor(edges)
            self.published.publish(some, self.fleet, self.trained, self.records)
            for flags in self.trained:
                flags[some] = False

    def _present(self, edge: int) -> list[bool]:
        """Which neighbours answer now."""
        base, number = edge - edge % self.n, self.published.number
        if not self.conditions.down_edges_fetch and self.outages[edge][number[edge]]:
            return [False] * len(self.links[edge].neighbours)
        there = set(self._candidates(edge))
        return [
            j in there and int(number[base + j]) > 0 and not self.outages[base + j][number[base + j]]
            for j in self.links[edge].neighbours
        ]

    def _mix(self, edges: list[int]) -> dict[int, list[int]]:
        """Fetch, learn the weights, mix and choose peers; returns the new neighbours of those that chose."""
        peers = {e: self._neighbours(e) for e in edges}
        present_of = {e: self._present(e) for e in edges}
        edges = [e for e in edges if any(present_of[e])]  # with nobody there, an edge trains on its batch instead
        if not edges:
            return {}
        width = max(len(peers[e]) for e in edges)
        index = torch.tensor([peers[e] + [e] * (width - len(peers[e])) for e in edges])
        present = torch.tensor([present_of[e] + [False] * (width - len(peers[e])) for e in edges])
        slot, number = self.published.slot(index.flatten(), self.conditions.staleness)
        slot, number = slot.view(index.shape), number.view(index.shape)
        self._note_fetches(edges, peers, slot, number, present)
        fetched = Fetched(
            self.published.dense.flatten(0, 1),
            tuple(t.flatten(0, 1) for t in self.published.tables),
            tuple((v > 0).flatten(0, 1) for v in self.published.version),
            {name: b.flatten(0, 1) for name, b in self.published.statistics.items()},
            slot,
            present,
        )
        some = torch.tensor(edges)
        part = self.fleet.part(some)
        links = [self.links[e] for e in edges]
        revealed = torch.tensor([self.pending[e] for e in edges])
        batch = self.batches.get(some.repeat_interleave(revealed.shape[1]), revealed.flatten())
        batch = batch.joined(revealed.shape[1], self.gradients.model.tables) if revealed.shape[1] > 1 else batch
        known = [since[some] >= 0 for since in self.known_since]
        wanted = self._wanted(edges) if self.method.adopt_rows else []
        weights = self._weights(edges, links, slot, width)
        weights = aggregate(part, fetched, weights, self.method.aggregation, batch, self.gradients, known, wanted)
        self.fleet.put(some, part)
        if isinstance(self.method.aggregation, Learned):
            unstack(weights, links)
        for edge, row in zip(edges, shares(weights.raw, present).tolist(), strict=True):
            mix = Mix(self.aggregations[edge], self.moment[edge], row[0], dict(zip(self.links[edge].neighbours, row[1:], strict=False)))
            self.record.mixes[edge].append(mix)
            if not self.method.train_on_aggregation:
                self.pending[edge] = []
        return {e: self._choose(e) for e in edges if (self.aggregations[e] + 1) % self.method.selection.every == 0}

    def _choose(self, edge: int) -> list[int]:
        base = edge - edge % self.n
        view = View(
            edge=edge - base,
            neighbours=self.links[edge].neighbours,
            candidates=self._candidates(edge),
            shares=self.links[edge].shares(),
            topology={j: self.topology[base + j] for j in self.links[edge].neighbours},
        )
        return self.method.selection.choose(view, self._rng(edge))

    def _weights(self, edges: list[int], links: list[Links], slot: Tensor, width: int) -> Weights:
        rule, dtype = self.method.aggregation, self.fleet.dense.dtype
        if isinstance(rule, Learned):
            return stack(links, width, dtype)
        if isinstance(rule, Uniform):
            return Weights.fixed(torch.ones(len(edges), 1 + width, dtype=dtype))
        assert isinstance(rule, ByRecords)
        own = self.records[edges].unsqueeze(1)
        return Weights.fixed(torch.cat([own, self.published.records.flatten()[slot]], dim=1).to(dtype))

    def _wanted(self, edges: list[int]) -> list[Tensor]:
        """Rows that each edge will need for the first time before its next aggregation.

        The edge would ask its peers for them at that moment; the simulator, which knows the moment, asks now.
        """
        masks = [torch.zeros(len(edges), since.shape[1], dtype=torch.bool) for since in self.known_since]
        for g, edge in enumerate(edges):
            timeline, local = self.timelines[edge // self.n], edge % self.n
            end = timeline.next_aggregation(local, self.at[edge])
            stop = timeline.last[local] if end is None else end + 1
            numbers = torch.arange(self.at[edge], stop)
            for mask, rows, since in zip(masks, self.batches.rows(torch.full_like(numbers, edge), numbers), self.known_since, strict=True):
                mask[g, rows.flatten()] = True
                mask[g] &= since[edge] < 0
                mask[g, -1] = False
        return masks

    def _note_fetches(self, edges: list[int], peers: dict[int, list[int]], slot: Tensor, number: Tensor, present: Tensor) -> None:
        held = [[self.links[e].known[j] for j in self.links[e].neighbours] for e in edges]
        width = slot.shape[1]
        cost = traffic(
            dense_bytes=self.fleet.dense.shape[1] * self.fleet.dense.element_size(),
            row_bytes=[t.value.shape[2] * t.value.element_size() for t in self.fleet.tables],
            versions=[v.flatten(0, 1)[slot] for v in self.published.version],
            known_since=[since[edges] for since in self.known_since],
            publication=torch.tensor([[x.publication for x in row] + [-1] * (width - len(row)) for row in held]),
            fetched_at=torch.tensor([[x.fetched_at for x in row] + [-1] * (width - len(row)) for row in held]),
            present=present,
        )
        local = [[j % self.n for j in peers[e]] for e in edges]
        self.record.fetched(edges, local, present, cost)
        numbers, there = number.tolist(), present.tolist()
        for g, edge in enumerate(edges):
            for p, link in enumerate(held[g]):
                if there[g][p]:
                    link.publication, link.fetched_at = numbers[g][p], self.aggregations[edge]
                    self.record.beyond_start[edge] += numbers[g][p] == 0
