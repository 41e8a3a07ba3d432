"""Run the cells that are not finished yet, on several workers."""

from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import NamedTuple, final

from alphaedge.core.methods import method
from alphaedge.data.stream import Dataset
from alphaedge.experiments.baselines import pool_streams, pooled_result, score_baseline
from alphaedge.experiments.cell import BASELINES, CellResult, Runnable
from alphaedge.experiments.cell_store import CellStore
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.simulate import STACKED_EDGES
from alphaedge.simulation.task import Task
from alphaedge.simulation.workers.protocol import Workers

# Called with the finished share of all work (0 to 1), finished cells, all cells, and the name of the current cell.
Report = Callable[[float, int, int, str], None]


def run_cells(cells: Iterable[Runnable], store: CellStore, workers: Workers, report: Report) -> None:
    """Run every cell that is not in the store. Cells that finish before an interruption stay in the store."""
    wanted = list(cells)
    tasks, pending = list[Task](), dict[str, _PendingCell]()
    progress = _TotalProgress(len(wanted), report)
    for cell in wanted:
        if store.get(cell) is not None:
            progress.finished += 1
            continue
        data, size = workers.cache.data(cell.settings(), 0), cell.settings().size
        reason = skip_reason(cell, data)
        if reason is not None:
            store.put(cell, CellResult(per_seed=[], per_edge=[], curves=[], notes=[reason]))
            progress.finished += 1
        elif cell.method in ("prior", "persistence"):
            store.put(cell, score_baseline(cell.method, data, size, cell.runs))
            progress.finished += 1
        else:
            parts, owner = _pooled_tasks(cell, data) if cell.method == "pooled" else (_tasks(cell, data), None)
            pending[cell.key()] = _PendingCell(cell, data.edge_names, owner, {}, [])
            tasks += parts
            progress.cost |= {f"{t.name}/{t.seeds[0]}": _cost(cell, data) * len(t.seeds) for t in parts}
    progress.report_now()
    for results, notes in workers.run(tasks, progress.update):
        one = pending[results[0].method]
        one.results.update({r.seed: r for r in results})
        one.notes.extend(notes)
        if len(one.results) == one.cell.runs:
            store.put(one.cell, one.summarise())
            one.results.clear()
            progress.finished += 1
            progress.report_now()


class _PendingCell(NamedTuple):
    """A cell whose runs are under way."""

    cell: Runnable
    names: list[str]  # of the edges
    owner: list[int] | None  # the edge of each batch, if the batches of all edges are in one stream
    results: dict[int, RunResult]  # by seed
    notes: list[str]

    def summarise(self) -> CellResult:
        runs = [self.results[seed] for seed in range(self.cell.runs)]
        if self.owner is None:
            return CellResult.of(runs, self.notes, self.names)
        return pooled_result(runs, self.notes, self.names, self.owner)


@final
class _TotalProgress:
    """The progress of all cells together. A task counts by its estimated cost."""

    def __init__(self, cells: int, report: Report) -> None:
        self.cells, self.report = cells, report
        self.finished = 0
        self.title = ""
        self.cost: dict[str, float] = {}  # by the name under which a task reports its progress
        self.done: dict[str, float] = {}

    def update(self, name: str, progress: Progress) -> None:
        """Take in the progress of one task."""
        self.done[name] = self.cost[name] * progress.batches / max(1, progress.total)
        self.title = name.partition("/")[0].rpartition("-")[0]
        self.report_now()

    def report_now(self) -> None:
        total = sum(self.cost.values()) or 1.0
        share = sum(self.done.values()) / total if self.cost else 1.0
        self.report(share, self.finished, self.cells, self.title)


def skip_reason(cell: Runnable, data: Dataset) -> str | None:
    """Explain why a cell would be meaningless; None if it is worth running."""
    settings = cell.settings()
    counts, delay = [len(s) // settings.size for s in data.streams], settings.conditions.delay
    if min(counts) == 0:
        events = min(len(s) for s in data.streams)
        return f"an edge has {events} events, fewer than one batch of {settings.size}"
    batches = int(median(counts))
    chosen = None if cell.method in BASELINES else settings.method.apply(cell.method)
    if chosen is not None and chosen.aggregation.uses_peers:
        mixes, staleness = batches // chosen.aggregate_every, settings.conditions.staleness
        if mixes == 0:
            return f"an edge has {batches} batches and never aggregates"
        if staleness >= mixes:
            times = "once" if mixes == 1 else f"{mixes} times"
            return f"an edge aggregates {times}, so no model is ever {staleness} periods old"
    if 2 * delay > batches:
        return f"an edge has {batches} batches, so most feedback would arrive after the end"
    return None


def _tasks(cell: Runnable, data: Dataset) -> list[Task]:
    settings = cell.settings()
    chosen = settings.method.apply(cell.method)
    stack = max(1, STACKED_EDGES // len(data.streams))
    seeds = range(cell.runs)
    return [
        Task(settings, cell.key(), chosen, tuple(seeds[first : first + stack]), None, None)
        for first in range(0, cell.runs, stack)
    ]


def _pooled_tasks(cell: Runnable, data: Dataset) -> tuple[list[Task], list[int]]:
    """Make the tasks of one edge that learns alone from the batches of all; and list the edge of each batch."""
    settings, alone, key = cell.settings(), method("noagg"), cell.key()
    # Noise that belongs to the data is drawn anew for each seed. Without noise, one stream serves all seeds.
    stacks = [(seed,) for seed in range(cell.runs)] if data.noise else [tuple(range(cell.runs))]
    streams = [(seeds, *pool_streams(data, settings.size, seeds[0])) for seeds in stacks]
    tasks = [Task(settings, key, alone, seeds, own, partial(settings.base.make, own)) for seeds, own, _ in streams]
    return tasks, streams[0][2]


def _cost(cell: Runnable, data: Dataset) -> float:
    """Estimate the work of one run, in steps of one edge on a batch of 50."""
    size = cell.settings().size
    batches = sum(len(s) // size for s in data.streams)
    each = 0.5 + size / 100
    if cell.method == "pooled":
        return 3 * batches * each
    chosen = cell.settings().method.apply(cell.method)
    steps, learned = (2.0 if chosen.home else 1.0), chosen.aggregation.weight_batches > 1 or "paper" in cell.method
    weights = 0.0 if not chosen.aggregation.uses_peers else (1.0 if learned else 0.3)
    return batches * each * (steps + weights * 20 / chosen.aggregate_every)
