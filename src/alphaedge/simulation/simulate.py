"""``simulate``: methods and seeds of one experiment, stacked where that is faster, over several processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from queue import Empty
from typing import Any, Final, final

import msgspec
import torch

from alphaedge.core import gradients as core_gradients
from alphaedge.core.fleet import Fleet
from alphaedge.core.methods import Method
from alphaedge.core.model import Model
from alphaedge.core.online import Online, predict
from alphaedge.core.optimizer import Adam
from alphaedge.data.stream import Dataset
from alphaedge.data.synthetic import synthetic
from alphaedge.errors import InvalidValue, ModelError, check_number
from alphaedge.metrics import SCORES
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.simulation.batches import Batches, Inputs, Labels
from alphaedge.simulation.config import Settings
from alphaedge.simulation.engine import BLOCK, Engine
from alphaedge.simulation.record import Progress, Record
from alphaedge.simulation.results import Outcome, Results
from alphaedge.simulation.timeline import Timeline
from alphaedge.simulation.world import World

# Stacking seeds widens the groups that aggregate at once; beyond this many edges there is nothing left to gain.
STACKED_EDGES: Final = 128

ModelFactory = Callable[[], Model]
Watch = Callable[[str, Progress], None]


@final
@dataclass(frozen=True)
class Task:
    """Some seeds of one method, to be run as one stack."""

    settings: Settings
    name: str
    method: Method
    seeds: tuple[int, ...]
    data: Dataset | None
    model: ModelFactory | None


def simulate(
    settings: Settings | None = None,
    *,
    data: Dataset | None = None,
    model: ModelFactory | None = None,
    methods: Mapping[str, Method] | Sequence[str] | None = None,
    jobs: int = 1,
    watch: Watch = lambda _, __: None,
    **changes: Any,
) -> Results:
    """Simulate a fleet under several methods and seeds.

    settings: everything that a configuration file can say; ``changes`` are fields of it, as a short cut.
    data: a ``Dataset`` of your own; the default is the synthetic store, drawn anew for each seed.
    model: makes a ``Model`` of your own (called once a seed, with torch seeded); the default is a DeepFM for
        classification and an MLP for regression over the data's fields.
    methods: names, or names with ``Method`` objects of your own.
    jobs: processes to spread methods and seeds over (data, model and methods must then be picklable).
    watch: called with "method/first seed of its stack" and progress, and first with "" and the whole's total.

    Ctrl-C ends a simulation early; the results then hold what was finished, and ``interrupted`` is True.

    >>> from alphaedge.data.synthetic import Store
    >>> found = simulate(methods=["noagg"], store=Store(edges=2, events=200))
    >>> list(found.summary()["methods"])
    ['noagg']
    """
    if isinstance(methods, Mapping):
        own, changes = dict(methods), {**changes}
    else:
        own = {}
        if methods is not None:
            changes["methods"] = tuple(methods)
    settings = _changed(settings or Settings(), changes)
    check_number("jobs", jobs, low=1, whole=True)
    chosen = own or {name: settings.method.apply(name) for name in settings.methods}
    edges = len(data.streams) if data is not None else settings.store.edges
    settings.conditions.check_edges(edges)
    messages = []
    for name, method in chosen.items():
        peers = getattr(method.selection, "peers", None)
        if peers is not None and peers > edges - 1:
            messages.append(f"{name}: K = {peers} peers, but an edge has {edges - 1} others: everybody is a neighbour")
    stack = max(1, min(-(-settings.seeds // max(1, jobs // len(chosen))), STACKED_EDGES // edges))
    tasks = [
        Task(settings, name, method, tuple(range(first, min(first + stack, settings.seeds))), data, model)
        for name, method in chosen.items()
        for first in range(0, settings.seeds, stack)
    ]
    if data is None and settings.batch_size > settings.store.least_events():
        allowed = f"at most {settings.store.least_events()}, the fewest events that a region of this store can have"
        raise InvalidValue("batch_size", settings.batch_size, allowed)
    first_data = data if data is not None else make_data(settings, 0)
    check(tasks[0], first_data)
    batches = sum(len(s) // settings.batch_size for s in first_data.streams)
    watch("", Progress(0, batches * len(chosen) * settings.seeds))
    results = Results(settings, list(chosen), first_data, messages)
    runner = _here if min(jobs, len(tasks)) == 1 else _spread
    try:
        for outcomes, notes in runner(tasks, min(jobs, len(tasks)), watch):
            results.add(outcomes, notes)
    except KeyboardInterrupt:
        results.interrupted = True
    return results


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    unknown = set(changes) - {f.name for f in msgspec.structs.fields(Settings)}
    if unknown:
        allowed = "one of " + ", ".join(f.name for f in msgspec.structs.fields(Settings))
        raise InvalidValue("simulate", sorted(unknown)[0], allowed)
    for field in msgspec.structs.fields(Settings):
        kind = field.type
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and field.name in changes:
            found = changes[field.name]
            if not isinstance(found, kind):
                raise InvalidValue(field.name, found, f"an alphaedge.{kind.__name__}")
    return msgspec.structs.replace(settings, **changes)


def make_data(settings: Settings, seed: int) -> Dataset:
    """The data set that the settings name, for one seed."""
    return synthetic(msgspec.structs.replace(settings.store, seed=settings.store.seed + seed))


def make_model(data: Dataset, factory: ModelFactory | None, seed: int) -> Model:
    """A model with the start that belongs to the seed, without touching torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if factory is not None:
            return factory()
        if data.task == "classify":
            return deepfm(data.fields)
        return mlp(data.fields, loss="mse")


def check(task: Task, data: Dataset) -> None:
    """Refuse, before any work starts, what the first batch would trip over."""
    model = make_model(data, task.model, 0)
    inputs = Inputs.cut(data, model, task.settings.batch_size)
    labels = Labels.draw(data, inputs, task.settings.batch_size, task.settings.conditions, 0, model.dtype)
    fleet = Fleet.start([model], [0])
    batch = Batches([inputs], [labels]).get(torch.tensor([0]), torch.tensor([0]))
    found = predict(fleet, batch, core_gradients.OneAtATime(model))
    if not model.tables:
        return
    raw = [data.streams[0].inputs[f][: task.settings.batch_size] for f in model.fields]
    with torch.no_grad():
        model.module.eval()
        plain = model.module(*(x.to(model.dtype) if x.is_floating_point() else x for x in raw)).reshape(-1)
    if not torch.allclose(found[0], plain, rtol=1e-3, atol=1e-5):
        names = ", ".join(t.name for t in model.tables)
        raise ModelError(
            f"{type(model.module).__name__}: its outputs change when the rows of id table {names} are renumbered; "
            "forward may use an id field only to look up rows of the parameters declared for it"
        )


@final
class Bench:
    """What one process keeps from task to task: recorded gradient calls, which fit every start of one model."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[core_gradients.Gradients, bool, list[str]]] = {}

    def backend(
        self, task: Task, model: Model, fleet: Fleet, batches: Batches, data: Dataset
    ) -> tuple[core_gradients.Gradients, bool, list[str]]:
        """How to compute gradients, whether outputs are the same in training mode, and what the user should know."""
        key = (task.model, data.fields, data.task, task.settings.batch_size, task.settings.executor)
        if key not in self._made:
            self._made[key] = _backend(model, fleet, batches, task.settings.executor)
        return self._made[key]


def run_task(
    task: Task, bench: Bench | None = None, watch: Watch = lambda _, __: None
) -> tuple[list[Outcome], list[str]]:
    """Run the seeds of one task as one stack; the same task gives the same outcome, dropout included."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seeds[0])
        return _run(task, bench or Bench(), watch)


def _run(task: Task, bench: Bench, watch: Watch) -> tuple[list[Outcome], list[str]]:
    settings, seeds = task.settings, task.seeds
    data = [task.data if task.data is not None else make_data(settings, s) for s in seeds]
    starts = 1 if settings.initial == "shared" else len(data[0].streams)
    models = [
        make_model(d, task.model, s * starts + i) for d, s in zip(data, seeds, strict=True) for i in range(starts)
    ]
    model, edges = models[0], len(data[0].streams)
    cut: dict[int, Inputs] = {}
    inputs = [cut.setdefault(id(d), Inputs.cut(d, model, settings.batch_size)) for d in data]
    labels = [
        Labels.draw(d, i, settings.batch_size, settings.conditions, s, model.dtype)
        for d, i, s in zip(data, inputs, seeds, strict=True)
    ]
    batches = Batches(inputs, labels)
    which = [r * starts + (e if starts > 1 else 0) for r in range(len(seeds)) for e in range(edges)]
    fleet = Fleet.start(models, which)
    gradients, same_pass, notes = bench.backend(task, model, fleet, batches, data[0])
    world = World(
        method=task.method,
        batches=batches,
        timelines=[Timeline(i, settings.clock, settings.conditions, task.method.aggregate_every) for i in inputs],
        seeds=seeds,
        fleet=fleet,
        gradients=gradients,
        conditions=settings.conditions,
        record=Record(len(fleet), len(batches.scored), settings.batch_size, SCORES[data[0].metric]),
    )
    online = Online(Adam(settings.rate, rows=settings.rows), settings.local_steps)
    block = BLOCK if settings.executor == "stacked" else 1
    engine = Engine(world, online, same_pass=same_pass, block=block)
    began = time.perf_counter()
    engine.run(lambda p: watch(task.name, p))
    seconds = time.perf_counter() - began
    outcomes = [
        Outcome.of(task.name, world, run, data[run], inputs[run], seconds / len(seeds)) for run in range(len(seeds))
    ]
    return outcomes, [f"{task.name}: {note}" for note in (*notes, *world.record.stopped.values())]


def _backend(
    model: Model, fleet: Fleet, batches: Batches, executor: str
) -> tuple[core_gradients.Gradients, bool, list[str]]:
    first = torch.tensor([0])
    batch = batches.get(first, torch.tensor([0]))
    part = fleet.part(first)
    rows = [t.gather(t.value, t.flat(r)) for t, r in zip(part.tables, batch.rows, strict=True)]
    args = (part.dense, rows, part.buffers, batch.inputs)
    notes = []
    gradients: core_gradients.Gradients = core_gradients.OneAtATime(model)
    if executor == "stacked":
        gradients, reason = core_gradients.choose(model, *args, batch.labels)
        if reason:
            notes.append(f"{type(model.module).__name__} runs one edge at a time, which is slow: {reason}")
    with torch.random.fork_rng(devices=[]):
        training = gradients.gradient(*args, batch.labels).outputs
    return gradients, bool(torch.allclose(training, gradients.outputs(*args), rtol=1e-4, atol=1e-6)), notes


def _here(tasks: list[Task], jobs: int, watch: Watch) -> Iterator[tuple[list[Outcome], list[str]]]:
    bench = Bench()
    for task in tasks:
        yield run_task(task, bench, partial(_tell, watch, task))


def _tell(watch: Watch, task: Task, name: str, progress: Progress) -> None:
    watch(f"{name}/{task.seeds[0]}", progress)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # it was killed: nobody waits for what this process does


@final
class _Worker:
    """One process of several: its bench, and its way back to the parent."""

    here: "_Worker"  # of this process; set by ``start``

    def __init__(self, channel: Any) -> None:
        self.channel, self.bench = channel, Bench()

    @classmethod
    def start(cls, channel: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cls.here = cls(channel)

    @classmethod
    def run(cls, task: Task) -> tuple[list[Outcome], list[str]]:
        return run_task(task, cls.here.bench, partial(_tell, lambda *report: cls.here.channel.put(report), task))


def _spread(tasks: list[Task], jobs: int, watch: Watch) -> Iterator[tuple[list[Outcome], list[str]]]:
    context = multiprocessing.get_context("spawn")
    channel = context.Queue()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_Worker.start, initargs=(channel,)) as pool:
        waiting = {pool.submit(_Worker.run, task) for task in tasks}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2)
                _drain(channel, watch)
                for future in done:
                    yield future.result()
        except BaseException:
            for future in waiting:
                future.cancel()
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _drain(channel: Any, watch: Watch) -> None:
    while True:
        try:
            name, progress = channel.get_nowait()
        except Empty:
            return
        watch(name, progress)
