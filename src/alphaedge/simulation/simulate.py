"""``simulate``: methods and seeds of one experiment, stacked where that is faster, over several processes."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from alphaedge.core.methods import Method
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_choice, check_number
from alphaedge.settings import method_name
from alphaedge.simulation.arguments import check as check_arguments
from alphaedge.simulation.batches import batch_times, find_own_rows
from alphaedge.simulation.checkpoint import EVERY_SECONDS, Checkpoints
from alphaedge.simulation.config import Settings
from alphaedge.simulation.engine import BLOCK
from alphaedge.simulation.memory.budget import Plan, fit
from alphaedge.simulation.memory.need import Need
from alphaedge.simulation.memory.size import parse_size
from alphaedge.simulation.results import Results
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import ModelFactory, Task, Watch, check, make_model, needs_every_row
from alphaedge.simulation.timeline import Timeline
from alphaedge.simulation.workers.processes import local_workers
from alphaedge.simulation.workers.protocol import Workers
from alphaedge.simulation.world import generations

# Stacking seeds widens the groups that aggregate at once; beyond this many edges there is nothing left to gain.
STACKED_EDGES: Final = 128


def simulate(
    settings: Settings | None = None,
    *,
    data: Dataset | None = None,
    model: ModelFactory | None = None,
    methods: Mapping[str, Method] | Sequence[str] | None = None,
    jobs: int = 1,
    workers: Workers | None = None,
    checkpoints: Path | None = None,
    checkpoint_every: float = EVERY_SECONDS,
    keep_state: str | None = None,
    watch: Watch = lambda _, __: None,
    **changes: Any,
) -> Results:
    """Simulate a fleet under several methods and seeds.

    settings: everything that a configuration file can say; ``changes`` are fields of it, as a short cut.
    data: a ``Dataset`` of your own; the default is what ``settings.data`` names: the synthetic store, drawn anew for
        each seed, one of the catalog, or a table.
    model: makes a ``Model`` of your own (called once a seed, with torch seeded); the default is the catalog's for its
        data, and for yours that of a table: a DeepFM, or an MLP for regression without ids and categories.
    methods: names, or names with ``Method`` objects of your own.
    jobs: processes to spread methods and seeds over (data, model and methods must then be picklable).
    workers: where they run instead of ``jobs`` processes, such as on a cluster (simulation.workers.ray_workers).
    checkpoints: a folder. Runs are written there every ``checkpoint_every`` seconds and at their end, and go on from
        what is there already: give the same arguments again. Remove it when you have the results.
    keep_state: the method whose fleet, under the first seed, is kept as it ended; ``Results.save`` writes it to the
        folder, and ``alphaedge fleet init`` makes a live fleet of it.
    watch: called with "method/first seed of its stack" and progress, and first with "" and the whole's total.

    Ctrl-C ends a simulation early; the results then hold what was finished, and ``interrupted`` is True.

    >>> from alphaedge.data.synthetic import Store
    >>> found = simulate(methods=["noagg"], store=Store(edges=2, events=200))
    >>> list(found.summary()["methods"])
    ['noagg']
    """
    check_arguments(settings, data, model, methods, changes)
    own = dict(methods) if isinstance(methods, Mapping) else {}
    if methods is not None and not own:
        changes["methods"] = tuple(methods)
    settings = msgspec.structs.replace(settings or Settings(), **changes)
    named, own_model = settings, model is not None
    settings = settings.resolved() if data is None else settings.for_own_data(data, own_model_given=own_model)
    check_number("jobs", jobs, low=1, whole=True)
    chosen = own or {method_name(spec): settings.method.apply(spec) for spec in settings.methods}
    if data is None and settings.data == "synthetic" and settings.size > settings.store.min_events():
        allowed = f"at most {settings.store.min_events()}, the fewest events that a region of this store can have"
        raise InvalidValue("batch_size", settings.size, allowed)
    if keep_state is not None:
        check_choice("keep_state", keep_state, chosen)
    workers = workers or local_workers(min(jobs, len(chosen) * settings.runs))
    first_data = data if data is not None else workers.cache.data(settings, 0)
    edges = len(first_data.streams)
    settings.conditions.check_edges(edges)
    messages = [*first_data.notes, *_wide_choices(chosen, edges)]
    if data is not None:
        messages += _chosen_pace(named, settings, own=bool(own))
    stack = max(1, min(-(-settings.runs // max(1, workers.count // len(chosen))), STACKED_EDGES // edges))
    plan = Plan(workers.count, stack, BLOCK)
    if settings.memory is not None:
        for name, method in chosen.items():
            task = Task(settings, name, method, (0,), data, model)
            plan = _within(task, first_data, parse_size("memory", settings.memory), plan)
        workers = workers.at_most(plan.jobs)
    tasks = [
        Task(
            settings,
            name,
            method,
            tuple(seeds),
            data,
            model,
            _checkpoints(checkpoints, checkpoint_every, name, seeds),
            block=plan.block,
            keep_state=name == keep_state and first == 0,
            baselines=name == next(iter(chosen)),  # they are the same for all methods
        )
        for name, method in chosen.items()
        for first in range(0, settings.runs, plan.stack)
        for seeds in [range(first, min(first + plan.stack, settings.runs))]
    ]
    known = {task.checkpoints.file for task in tasks if task.checkpoints}
    if checkpoints and (strange := set(checkpoints.resolve().glob("*.pt")) - known):
        raise InvalidValue("checkpoint", str(min(strange)), "one of the same methods, seeds and number of jobs")
    check(tasks[0], first_data)
    batches = sum(len(s) // settings.size for s in first_data.streams)
    watch("", Progress(0, batches * len(chosen) * settings.runs))
    objects = {"data": data, "model": model, "methods": own or None}
    given = [name for name, found in objects.items() if found is not None]
    results = Results(settings, chosen, first_data, messages, given)
    try:
        for outcomes, notes in workers.run(tasks, watch):
            results.add(outcomes, notes)
    except KeyboardInterrupt:
        results.interrupted = True
    return results


def _chosen_pace(named: Settings, settings: Settings, *, own: bool) -> list[str]:
    """A note about the pace of data from Python, where it was not named. own: methods have an E of their own."""
    said = [] if named.batch_size else [f"batches of {settings.size} (batch_size)"]
    if not named.method.aggregate_every and not own:
        said.append(f"an aggregation every {settings.method.aggregate_every} batches (method.aggregate_every)")
    return [f"{', '.join(said)}: chosen by the number of events per edge"] if said else []


def _wide_choices(methods: Mapping[str, Method], edges: int) -> list[str]:
    """A note for each number of peers that is larger than the fleet allows, with the methods that have it."""
    found: dict[int, list[str]] = {}
    for name, method in methods.items():
        peers = method.selection.peers
        if peers is not None and peers > edges - 1:
            found.setdefault(peers, []).append(name)
    return [
        f"{', '.join(names)}: K = {peers} peers, but an edge has {edges - 1} others: everybody is a neighbour"
        for peers, names in found.items()
    ]


def _within(task: Task, data: Dataset, budget: int, plan: Plan) -> Plan:
    """The plan, as far as such tasks are within a budget of memory."""
    settings, method = task.settings, task.method
    model = make_model(task.factory(data), 0)
    timeline = Timeline(batch_times(data, settings.size), settings.clock, settings.conditions, method.aggregate_every)
    need = Need.of(
        model,
        data,
        method,
        size=settings.size,
        own_rows=find_own_rows(data, model, settings.size, every_row=needs_every_row(settings)),
        generations=generations(method, settings.conditions, [timeline]),
        events_on_disk=True,
    )
    return fit(budget, need, plan)


def _checkpoints(folder: Path | None, every: float, name: str, seeds: range) -> Checkpoints | None:
    plain = re.sub(r"[^\w.-]", "_", name)
    return None if folder is None else Checkpoints(folder.resolve() / f"{plain}-{seeds.start}-{seeds.stop}.pt", every)
