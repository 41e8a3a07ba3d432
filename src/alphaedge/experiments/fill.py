"""Fill the cells that are not finished yet, spread over processes."""

from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import NamedTuple, final

from alphaedge.core.methods import METHODS, method
from alphaedge.data.stream import Dataset
from alphaedge.experiments.baselines import pooled, shared_out, simple
from alphaedge.experiments.cell import Cell, CellResult, CellStore
from alphaedge.simulation.processes import run_tasks
from alphaedge.simulation.results import RunResult
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.simulate import STACKED_EDGES
from alphaedge.simulation.task import Task, WorkerCache

# How far along the whole is (0 to 1), cells finished, cells in all, and what is being worked on.
Report = Callable[[float, int, int, str], None]


class _Work(NamedTuple):
    cell: Cell
    names: list[str]  # of the edges
    owner: list[int] | None  # of each batch, where one stream holds those of all edges


@final
class _Course:
    """How far the whole is, weighed by what each task costs."""

    def __init__(self, cells: int, report: Report) -> None:
        self.cells, self.report = cells, report
        self.finished = 0
        self.title = ""
        self.cost: dict[str, float] = {}  # of each task, by the name that its news come under
        self.done: dict[str, float] = {}

    def watch(self, name: str, progress: Progress) -> None:
        """News of a task."""
        self.done[name] = self.cost[name] * progress.batches / max(1, progress.total)
        self.title = name.partition("/")[0].rpartition("-")[0]
        self.tell()

    def tell(self) -> None:
        """Tell whoever watches."""
        total = sum(self.cost.values()) or 1.0
        share = sum(self.done.values()) / total if self.cost else 1.0
        self.report(share, self.finished, self.cells, self.title)


def fill(cells: Iterable[Cell], shelf: CellStore, jobs: int, report: Report) -> None:
    """Run every cell that the shelf does not have yet. What is finished stays, whatever happens then."""
    wanted = list(cells)
    bench, tasks, works = WorkerCache(), list[Task](), dict[str, _Work]()
    course = _Course(len(wanted), report)
    for cell in wanted:
        if shelf.get(cell) is not None:
            course.finished += 1
            continue
        data, size = bench.data(cell.settings(), 0), cell.settings().size
        reason = senseless(cell, data)
        if reason is not None:
            shelf.put(cell, CellResult(per_seed=[], per_edge=[], curves=[], notes=[reason]))
            course.finished += 1
        elif cell.method in ("prior", "persistence"):
            shelf.put(cell, simple(cell.method, data, size, cell.runs))
            course.finished += 1
        else:
            parts, owner = _pooled(cell, data) if cell.method == "pooled" else (_tasks(cell, data), None)
            works[cell.key()] = _Work(cell, data.edge_names, owner)
            tasks += parts
            course.cost |= {f"{t.name}/{t.seeds[0]}": _cost(cell, data) * len(t.seeds) for t in parts}
    course.tell()
    outcomes: dict[str, dict[int, RunResult]] = {key: {} for key in works}
    said: dict[str, list[str]] = {key: [] for key in works}
    for some, notes in run_tasks(tasks, min(jobs, max(1, len(tasks))), course.watch, bench):
        key = some[0].method
        outcomes[key] |= {o.seed: o for o in some}
        said[key] += notes
        cell, names, owner = works[key]
        if len(outcomes[key]) == cell.runs:
            runs = [outcomes[key].pop(seed) for seed in range(cell.runs)]
            notes = said[key]
            shelf.put(
                cell, CellResult.of(runs, notes, names) if owner is None else shared_out(runs, notes, names, owner)
            )
            course.finished += 1
            course.tell()


def senseless(cell: Cell, data: Dataset) -> str | None:
    """Why a cell would say nothing, if so."""
    counts = [len(s) // cell.settings().size for s in data.streams]
    if min(counts) == 0:
        return f"an edge has {min(len(s) for s in data.streams)} events, less than one batch of {cell.settings().size}"
    batches = int(median(counts))
    mixes = batches // cell.every
    if cell.method in METHODS and cell.method != "noagg":
        if mixes == 0:
            return f"an edge has {batches} batches and never aggregates"
        if cell.staleness >= mixes:
            times = "once" if mixes == 1 else f"{mixes} times"
            return f"an edge aggregates {times}: nothing is {cell.staleness} periods old"
    if 2 * cell.delay > batches:
        return f"an edge has {batches} batches: most feedback would come after the end"
    return None


def _tasks(cell: Cell, data: Dataset) -> list[Task]:
    settings = cell.settings()
    chosen = settings.method.apply(cell.method)
    stack = max(1, STACKED_EDGES // len(data.streams))
    seeds = range(cell.runs)
    return [
        Task(settings, cell.key(), chosen, tuple(seeds[first : first + stack]), None, None)
        for first in range(0, cell.runs, stack)
    ]


def _pooled(cell: Cell, data: Dataset) -> tuple[list[Task], list[int]]:
    """One edge that learns alone from everybody's batches, and whose batch each is."""
    settings, alone, key = cell.settings(), method("noagg"), cell.key()
    # Noise that belongs to the data is drawn anew for each seed; without it one stream serves all.
    stacks = [(seed,) for seed in range(cell.runs)] if data.noise else [tuple(range(cell.runs))]
    streams = [(seeds, *pooled(data, settings.size, seeds[0])) for seeds in stacks]
    tasks = [Task(settings, key, alone, seeds, own, partial(settings.base.make, own)) for seeds, own, _ in streams]
    return tasks, streams[0][2]


def _cost(cell: Cell, data: Dataset) -> float:
    """About how much work one run of a cell is, in steps of a batch of 50 at an edge."""
    size = cell.settings().size
    batches = sum(len(s) // size for s in data.streams)
    each = 0.5 + size / 100
    if cell.method == "pooled":
        return 3 * batches * each
    rule = cell.settings().method.apply(cell.method)
    steps = 2.0 if rule.home else 1.0
    weights = 0.0 if cell.method == "noagg" else (1.0 if rule.home or "paper" in cell.method else 0.3)
    return batches * each * (steps + weights * 20 / cell.every)
