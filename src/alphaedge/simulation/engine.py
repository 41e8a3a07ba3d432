"""The simulator's loop: all edges train a span side by side, then aggregate, each as of its own moment.

Everything that learns is in ``core``; here is only who does it when.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, NamedTuple, final

import torch
from torch import Tensor, vmap

from alphaedge.core.home import combine, parabola
from alphaedge.core.online import Online
from alphaedge.core.round import join
from alphaedge.core.start import START_MODELS
from alphaedge.simulation.judge import Judge
from alphaedge.simulation.reading import Publication
from alphaedge.simulation.rounds import aggregate_group, pull
from alphaedge.simulation.run_log import Progress, RunLog
from alphaedge.simulation.shards import gather
from alphaedge.simulation.timeline import levels
from alphaedge.simulation.training_span import Plan, TrainingSpan, run_span
from alphaedge.simulation.world import World

# Edges stepped at once; more falls out of the cache (see benchmarks/scaling).
BLOCK: Final = 256
MIX_BLOCK: Final = 64  # edges that mix at once, each with the models of its peers
HELD_MODELS: Final = 512  # of peers, that the edges that mix at once hold at most, as far as one edge can do with that


@final
class _Outputs(NamedTuple):
    """What models have predicted of some batches, [M, B], by edge and number; alone: what the home models have."""

    edges: Tensor
    numbers: Tensor
    mixed: Tensor
    alone: Tensor | None


def mix_block(block: int, peers: int) -> int:
    """How many edges mix at once, where ``block`` learn at once and each has so many peers."""
    return max(1, min(block, MIX_BLOCK, HELD_MODELS // max(1, peers)))


@final
class Engine:
    """Runs a world to the end of its streams.

    same_pass: whether a batch that is predicted and trained on at once may share one forward pass.
    block: how many edges are computed at once; 1 is the one-at-a-time executor.
    """

    def __init__(self, world: World, online: Online, *, same_pass: bool, block: int = BLOCK) -> None:
        self.world, self.online, self.same_pass, self.block = world, online, same_pass, block
        world.lazy_rows = online.for_rows.lazy_rows
        settings = world.method.home
        peers = min(world.n - 1, world.method.selection.peers or world.n)
        self.mix_block = mix_block(block, peers)
        delay, dtype = world.conditions.delay, world.models.dense.dtype
        self.judge = Judge(settings, len(world.models), delay, dtype, world.device) if settings else None

    def run(
        self,
        progress: Callable[[Progress], None] = lambda _: None,
        last_round: Callable[[Sequence[int]], None] = lambda _: None,
    ) -> RunLog:
        """Run every stream to its end. last_round: called with edges that have just had the last of their rounds."""
        world = self.world
        here = [world.where(edge) for edge in range(len(world.models))]
        total = sum(timeline.last[local] - timeline.first[local] for timeline, local in here)
        publish_first = world.method.publish == "trained"
        while due := self._due():
            for group in due:
                joining = [e for e in group if world.phase[e] == "to join"]
                meeting = [e for e in group if world.phase[e] == "to aggregate"]
                # A newcomer reads like everybody else: after this group's publications, or before them.
                lost = self._reset_lost(meeting)
                if publish_first:
                    aggregate_group(world, meeting, self.mix_block, lost)
                self._join(joining)
                if not publish_first:
                    aggregate_group(world, meeting, self.mix_block, lost)
                last_round([e for e in meeting if world.span_end(e)[0] is None])
            self._train()
            progress(world.log.progress(total))
        return world.log

    def _reset_lost(self, edges: list[int]) -> list[int]:
        """Start mixed models that have been of no use for long anew from the home models; the edges they belong to."""
        if self.judge is None or self.world.home is None:
            return []
        lost = self.judge.lost(edges)
        if lost:
            self.world.models.copy_edges(torch.tensor(lost, device=self.world.device), self.world.home)
            self.judge.forget(lost)
            for edge in lost:
                self.world.links[edge].restart(self.world.method.aggregation.memory)
                self.world.log.resets[edge].append(int(self.world.aggregations[edge]))
        return lost

    def _due(self) -> list[list[int]]:
        """Groups of edges whose next event may happen now: no earlier one waits for untrained batches.

        Every shard finds as many groups; in some it may have no edge.
        """
        world = self.world
        waiting = [e for e, phase in enumerate(world.phase) if phase in ("to join", "to aggregate")]
        if not world.method.aggregation.uses_peers:
            return [waiting] if any(gather(world.shards, bool(waiting))) else []
        bounds: list[tuple[float, float]] = [(inf, inf)] * len(world.seeds)  # by run: the horizon, the soonest event
        for edge in waiting:
            timeline, local = world.where(edge)
            run, end = world.own[edge] // world.n, timeline.moment(local, world.span_end(edge)[0])
            bounds[run] = min(bounds[run][0], end), min(bounds[run][1], world.moment[edge])
        everywhere = zip(*gather(world.shards, bounds), strict=True)
        bounds = [(min(ends), min(moments)) for ends, moments in (zip(*run, strict=True) for run in everywhere)]
        if all(soonest == inf for _, soonest in bounds):
            return []
        due = []
        for edge in waiting:
            horizon, soonest = bounds[world.own[edge] // world.n]
            if world.moment[edge] < horizon or world.moment[edge] == soonest:
                due.append(edge)
        return [due] if world.method.publish == "trained" else self._in_order(due)

    def _in_order(self, due: list[int]) -> list[list[int]]:
        """Groups of events one after the other, where an edge reads what others have mixed before."""
        world = self.world
        events: dict[int, tuple[float, Sequence[int]]] = {}
        for edge in due:
            late = world.phase[edge] == "to join" and world.moment[edge] > 0
            everybody = range(world.base(edge), world.base(edge) + world.n)
            events[world.own[edge]] = world.moment[edge], everybody if late else world.read_by(edge)
        for others in gather(world.shards, events):
            events |= others
        merged: list[list[int]] = []
        for run in range(len(world.seeds)):
            some = {number: event for number, event in sorted(events.items()) if number // world.n == run}
            groups = levels({e: some[e][0] for e in some}, {e: some[e][1] for e in some})
            merged += [[] for _ in range(len(groups) - len(merged))]
            for depth, group in enumerate(groups):
                merged[depth] += [number - world.own.start for number in group if number in world.own]
        return merged

    def _join(self, edges: list[int]) -> None:
        """Let edges in: first neighbours and, if they come late, a model of peers to start from."""
        world = self.world
        sources: dict[int, list[Publication]] = {}
        for edge in edges:
            timeline, local = world.where(edge)
            candidates, base = world.candidates(edge), world.base(edge)
            world.links[edge] = join(world.method, local, candidates, world.rng(edge, "first peers"))
            world.phase[edge] = "to train" if world.at[edge] < timeline.last[local] else "done"
            if timeline.join[local] > 0 and world.conditions.bootstrap:
                numbers = {base + j: world.newest_at(base + j, world.moment[edge]) for j in candidates if j != local}
                models = [j for j, number in numbers.items() if number]
                chosen = world.rng(edge, "bootstrap").sample(models, min(START_MODELS, len(models)))
                if chosen:
                    sources[edge] = [(j, numbers[j]) for j in chosen]
        if world.conditions.joins:
            newcomers = torch.tensor(list(sources), dtype=torch.long, device=world.device)
            every_row = [torch.ones_like(rows[newcomers], dtype=torch.bool) for rows in world.named.since]
            places = pull(world, {one for some in sources.values() for one in some}, newcomers, every_row)
            for edge, some in sources.items():
                rows = world.rows_at([edge], [[j for j, _ in some]])
                released = world.releases.models if world.releases is not None else None  # what peers tell is public
                for state in (one for one in (world.models, world.home, released) if one is not None):
                    world.published.give([places[one] for one in some], rows, state, edge)

    def _train(self) -> None:
        """Let every edge that can run to the eve of its next aggregation."""
        world = self.world
        edges = [e for e, state in enumerate(world.phase) if state == "to train"]
        size = max(1, self.block // 2) if world.home else self.block
        for start in range(0, len(edges), size):
            self._run_block(edges[start : start + size])
        for stopped in gather(world.shards, world.log.stopped):
            world.log.stopped |= stopped
        for edge in edges:
            end, world.at[edge] = world.span_end(edge)
            timeline, local = world.where(edge)
            world.moment[edge] = timeline.moment(local, end)
            world.phase[edge] = "done" if end is None or world.own[edge] in world.log.stopped else "to aggregate"
            world.pending[edge] = []

    def _plan(self, edge: int, *, home: bool = False) -> Plan:
        """The next span of an edge's mixed or home model; that of a mixed one starts with what is still to be trained.

        The home model, which never mixes, trains on every batch as soon as it is revealed, and so it is ahead: both
        train in the same columns, side by side, most of the time.
        """
        world = self.world
        pending, lead = ([], 0) if home else (world.pending[edge], world.method.weight_batches)
        timeline, local = world.where(edge)
        first, delay, weight_batches = timeline.first[local], world.conditions.delay, world.method.weight_batches
        end, stop = world.span_end(edge)
        predicted = [-1] * lead + list(range(world.at[edge], stop))
        trained = [-1] * (lead - len(pending)) + pending
        # The batches that an aggregation will learn its weights on are not trained on before it, or only ahead of it.
        waits = end is not None and end - delay - weight_batches + 1 >= first
        ahead = weight_batches if waits and world.method.train_ahead else 0
        for number in range(world.at[edge], stop):
            kept = not home and waits and not ahead and number >= stop - weight_batches
            trained.append(-1 if kept or number - delay < first else number - delay)
        return Plan(len(world.models) + edge if home else edge, edge, predicted, trained, ahead)

    def _run_block(self, block: list[int]) -> None:
        world = self.world
        plans = [self._plan(e) for e in block]
        homes = [self._plan(e, home=True) for e in block] if world.home else []
        span = TrainingSpan.of(plans, world.device)
        if world.before is None:
            found = self._run_plans(plans, homes, world.method.weight_batches)
        else:
            early, late = zip(*(plan.parts() for plan in plans), strict=True)
            first, last = zip(*(plan.parts() for plan in homes), strict=True) if homes else ((), ())
            found = self._run_plans(early, first, world.method.weight_batches)
            waiting = [plan for plan in late if plan.ahead]
            if waiting:
                ahead = TrainingSpan.of(waiting, world.device)
                world.keep(ahead.edges, ahead.trained)
            found += self._run_plans(waiting, [p for p in last if p.ahead], 0)
        if found:
            self._note_predictions(span, found)
        _note_named(world, span)
        world.note_trained(span.edges, span.trained)

    def _run_plans(self, plans: Sequence[Plan], homes: Sequence[Plan], lead: int) -> list[_Outputs]:
        """Run mixed and home models side by side. lead: columns that those of the home models are ahead."""
        if all(batch < 0 for plan in (*plans, *homes) for batch in (*plan.predicted, *plan.trained)):
            return []
        world = self.world
        whole = TrainingSpan.of([*plans, *homes], world.device)
        run = (world.batches, world.gradients, self.online)
        outputs = run_span(world.stack, whole, *run, same_pass=self.same_pass)
        predicted = whole.predicted[: len(plans)]
        place, column = (predicted >= 0).nonzero(as_tuple=True)
        alone = outputs[len(plans) + place, column - lead] if homes else None
        return [_Outputs(whole.edges[place], predicted[place, column], outputs[place, column], alone)]

    def _note_predictions(self, span: TrainingSpan, parts: Sequence[_Outputs]) -> None:
        """Blend, score and note what models have predicted; span: of the mixed models, with all parts of it."""
        world, model = self.world, self.world.gradients.model
        edges, numbers, found = (torch.cat(x) for x in list(zip(*parts, strict=True))[:3])
        # In the order of the span: edge by edge, and batch by batch.
        order = (edges * (1 + int(numbers.max())) + numbers).argsort()
        edges, numbers, found = edges[order], numbers[order], found[order]
        taught = world.batches.taught(edges, numbers)
        loss = vmap(model.loss.function)
        if self.judge is None:
            losses = loss(found, taught)
        else:
            alone = torch.cat([part.alone for part in parts if part.alone is not None])[order]
            three = torch.cat([alone, combine(0.5, found, alone), found])
            of_home, of_half, losses = loss(three, taught.repeat(3, 1)).chunk(3)
            predicted = span.predicted >= 0
            parabolas = losses.new_zeros(*predicted.shape, 2)
            parabolas[predicted] = parabola(of_home, of_half, losses)
            shares = self.judge.shares(span.edges, predicted, parabolas)
            found = combine(shares[predicted], found, alone)
        self._stop_the_broken(edges[~torch.isfinite(losses)])
        labels = (world.batches.at_label[edges] + numbers).cpu()
        world.log.add_predictions(labels, model.loss.link(found).cpu(), world.batches.scored[labels])

    def _stop_the_broken(self, edges: Tensor) -> None:
        world = self.world
        for edge in sorted(set(edges.tolist())):
            run, local = divmod(world.own[edge], world.n)
            if world.own[edge] in world.log.stopped:
                continue
            world.log.stopped[world.own[edge]] = (
                f"seed {world.seeds[run]}, edge {local}: the loss is no longer finite; the edge stops after "
                f"aggregation {int(world.aggregations[edge])}, the others continue"
            )


def _note_named(world: World, span: TrainingSpan) -> None:
    """Note which id rows the edges may name, and from which aggregation on they can ask for them.

    What an edge meets after it has pulled for its next aggregation, it can ask for at the one after that.
    """
    ends = [[world.span_end(e)[0] is not None] for e in span.edges.tolist()]
    aggregates = torch.tensor(ends, device=world.device)
    last = span.predicted.max(1, keepdim=True).values
    late = aggregates & (span.predicted > last - world.method.pull_ahead)
    for later, which in enumerate((~late, late)):  # in this order: of a row met twice the first time counts
        for numbers, note in ((span.predicted, world.named.note_met), (span.trained, world.named.note_learned)):
            place, column = (which & (numbers >= 0)).nonzero(as_tuple=True)
            edges = span.edges[place]
            note(edges, numbers[place, column], world.batches, world.aggregations[edges] + later)
