"""A task: some seeds of one method, run as one stack. What a process of a simulation does."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import msgspec
import torch

from alphaedge.core import gradients as core_gradients
from alphaedge.core.device import fork_randomness
from alphaedge.core.methods import Method
from alphaedge.core.model import Model
from alphaedge.core.model_check import check_renumbering
from alphaedge.core.state import ModelState
from alphaedge.data.archive import cache_folder
from alphaedge.data.stream import Dataset
from alphaedge.data.synthetic import synthetic
from alphaedge.data.table import load as load_table
from alphaedge.errors import InvalidValue
from alphaedge.scoring import score_windows
from alphaedge.simulation.batches import Batches, Inputs, Labels, batch_times
from alphaedge.simulation.catalog import CATALOG, own_model
from alphaedge.simulation.checkpoint import Checkpoints, describe, restore, save
from alphaedge.simulation.config import Settings
from alphaedge.simulation.end_state import EndState
from alphaedge.simulation.engine import BLOCK, MIX_BLOCK, Engine
from alphaedge.simulation.memory.parts import InMemory, OnDisk, keep_on_disk
from alphaedge.simulation.recording_cache import RecordingCache, recording_cache
from alphaedge.simulation.run_log import Progress, RunLog
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.shards import OneShard, Shards, cut, gather
from alphaedge.simulation.timeline import Timeline
from alphaedge.simulation.world import World

ModelFactory = Callable[[], Model]
Outcome = tuple[list[RunResult], list[str]]  # the results of a task's seeds, and what the user should know
# Called with "name/first seed" of a task and its progress; returns True to stop the task.
Watch = Callable[[str, Progress], bool | None]


SHARD_SEEDS: Final = 1_000_003  # between the seeds of two shards, for dropout


class TaskStopped(Exception):
    """Whoever watches a task has had enough of it."""


@final
@dataclass(frozen=True)
class Task:
    """Some seeds of one method, to be run as one stack.

    window: events per score, which divides the batch size; None is a batch. With AUC, only scores of equally many
    events can be compared. block: how many models learn at once. baselines: whether simple baselines are scored too.
    keep_state: whether the result of the first seed has the state in which its fleet ended (``simulation.end_state``).
    """

    settings: Settings
    name: str
    method: Method
    seeds: tuple[int, ...]
    data: Dataset | None
    model: ModelFactory | None
    checkpoints: Checkpoints | None = None
    window: int | None = None
    block: int = BLOCK
    keep_state: bool = False
    baselines: bool = False

    def factory(self, data: Dataset) -> ModelFactory:
        """What makes the model: the user, or the catalog, for its own data or for the user's."""
        base = self.settings.base if self.data is None else CATALOG["table"].models[own_model(data.task)]
        return self.model or partial(base.make, data)

    def base_name(self, data: Dataset) -> str | None:
        """The name of the base model; None for one of the user's own."""
        if self.model is not None:
            return None
        return own_model(data.task) if self.data is not None else self.settings.model


def make_data(settings: Settings, seed: int) -> Dataset:
    """The data set that the settings name; the synthetic store is drawn anew for each seed.

    An edge of a table that has not even a batch of events is left out.
    """
    with torch.device("cpu"):  # whatever torch's default is: batches go to the models' device later
        data = _whole_data(settings, seed).window(settings.rows).first(settings.first)
        return data.without_small(settings.size) if settings.table is not None else data


def _whole_data(settings: Settings, seed: int) -> Dataset:
    if settings.data == "synthetic":
        keep = keep_on_disk if settings.memory else tuple
        return synthetic(msgspec.structs.replace(settings.store, seed=settings.store.seed + seed), keep)
    if settings.table is not None:
        data = load_table(settings.table)
    else:
        load = CATALOG[settings.data].load
        assert load is not None
        data = load()
    return replace(data, streams=keep_on_disk(data.streams)) if settings.memory else data


def make_model(factory: ModelFactory, seed: int) -> Model:
    """A model with the start that belongs to the seed, without touching torch's global generator."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # so that the start is the same on every device
        torch.default_generator.manual_seed(seed)
        found = factory()
    if not isinstance(found, Model):
        allowed = "a function that returns an alphaedge.Model, which names the fields, tables and loss of a module"
        raise InvalidValue("model", type(found).__name__, allowed)
    return found


def check(task: Task, data: Dataset) -> None:
    """Refuse, before any work starts, what the first batch would trip over."""
    model = make_model(task.factory(data), 0)
    Inputs.cut(data, model, task.settings.size)
    check_renumbering(model, [data.streams[0].inputs[f][: task.settings.size] for f in model.fields])


def needs_every_row(settings: Settings) -> bool:
    """Whether edges have rows for ids that they never meet: hostile ones claim to, in some attacks."""
    return settings.conditions.adversaries > 0 and settings.conditions.make_attack().claims_all_rows


def _recordings_folder() -> Path | None:
    try:
        return cache_folder() / "recordings"
    except RuntimeError:  # a user without a home folder
        return None


@final
class WorkerCache:
    """What one process keeps from task to task: the data, and recorded gradient calls, which fit every start."""

    def __init__(self) -> None:
        self._recordings = _recordings_folder()
        self._made: dict[Any, tuple[core_gradients.Gradients, bool, list[str]]] = {}
        self._loaded: dict[bytes, Dataset] = {}
        self._cut: dict[Any, tuple[Dataset, Inputs]] = {}

    def data(self, settings: Settings, seed: int) -> Dataset:
        """The data set that the settings name; the last one loaded is kept, as the next task often needs it."""
        key = self.data_key(settings, seed)
        self.keep(key, partial(make_data, settings, seed))
        return self._loaded[key]

    def data_key(self, settings: Settings, seed: int) -> bytes:
        """What is equal for settings that name the same data."""
        store = seed if settings.data == "synthetic" else 0
        return msgspec.json.encode(
            (settings.data, settings.rows, settings.first, settings.table, settings.store, store, settings.memory)
        )

    def keep(self, key: bytes, make: Callable[[], Dataset]) -> None:
        """Make sure that the data set of this key, and no other, is there."""
        if key not in self._loaded:
            self._loaded = {key: make()}

    def inputs(
        self, data: Dataset, model: Model, size: int, edges: range, keep: int, *, every_row: bool, on_disk: bool
    ) -> Inputs:
        """The batches of some edges, as the model takes them; the last ``keep`` are kept, like the data."""
        tables = tuple((t.fields, t.rows) for t in model.tables)
        key = (id(data), model.fields, model.dtype, tables, size, edges, every_row, on_disk)
        if key not in self._cut:
            while len(self._cut) >= keep:
                self._cut.pop(next(iter(self._cut)))
            parts = OnDisk if on_disk else InMemory
            self._cut[key] = data, Inputs.cut(data, model, size, edges, every_row=every_row, parts=parts)
        return self._cut[key][1]

    def backend(
        self, task: Task, model: Model, state: ModelState, batches: Batches, data: Dataset
    ) -> tuple[core_gradients.Gradients, bool, list[str]]:
        """How to compute gradients, whether outputs are the same in training mode, and what the user should know."""
        named = (task.settings.data, task.settings.model) if task.data is None else None
        key = (task.model, named, data.fields, data.task, task.settings.size, task.settings.executor, state.device)
        if key not in self._made:
            recordings = recording_cache(self._recordings, model) if self._recordings else None
            self._made[key] = _backend(model, state, batches, task.settings.executor, recordings)
        return self._made[key]


def run_task(
    task: Task, cache: WorkerCache | None = None, watch: Watch = lambda _, __: None, shards: Shards | None = None
) -> Outcome:
    """Run the seeds of one task as one stack; the same task gives the same outcome, dropout included.

    shards: those of the fleet, if there are several; the outcome is of the edges of this one. ``watch`` is called with
    the progress of all, in the first.
    """
    torch.set_num_threads(1)
    with fork_randomness(torch.device(task.settings.device)):
        torch.manual_seed(task.seeds[0] + SHARD_SEEDS * (shards.rank if shards else 0))
        return _run(task, cache or WorkerCache(), watch, shards or OneShard())


def _run(task: Task, cache: WorkerCache, watch: Watch, shards: Shards) -> Outcome:
    settings, seeds = task.settings, task.seeds
    data = [task.data if task.data is not None else cache.data(settings, s) for s in seeds]
    parts = cut([len(s) // settings.size for s in data[0].streams], shards.count)
    edges = parts[shards.rank]  # of each run
    shared = settings.initial == "shared"
    starts = 1 if shared else len(data[0].streams)
    models = [
        make_model(task.factory(d), s * starts + i)
        for d, s in zip(data, seeds, strict=True)
        for i in (range(1) if shared else edges)
    ]
    model = models[0]
    keep, how = len({id(d) for d in data}), {"every_row": needs_every_row(settings), "on_disk": bool(settings.memory)}
    inputs = [cache.inputs(d, model, settings.size, edges, keep, **how) for d in data]
    labels = [
        Labels.draw(d, settings.size, settings.conditions, s, model.dtype, edges)
        for d, s in zip(data, seeds, strict=True)
    ]
    batches = Batches(inputs, labels, settings.device)
    which = [r if shared else r * len(edges) + e for r in range(len(seeds)) for e in range(len(edges))]
    here, times = range(len(which)) if shards.count == 1 else edges, 2 if task.method.home else 1
    rows = [own.named[here.start : here.stop].repeat(times, 1) for own in batches.own_rows]
    state = ModelState.start(models, which * times, settings.device, rows)
    gradients, same_pass, notes = cache.backend(task, model, state, batches, data[0])
    world = World(
        method=task.method,
        batches=batches,
        timelines=[
            Timeline(batch_times(d, settings.size), settings.clock, settings.conditions, task.method.aggregate_every)
            for d in data
        ],
        seeds=seeds,
        models=state,
        gradients=gradients,
        conditions=settings.conditions,
        log=RunLog(len(which), len(batches.scored), settings.size, partial(score_windows, data[0].metric, task.window)),
        shards=shards,
        parts=parts if shards.count > 1 else None,
        guests=_room_for_guests(task.method, model, len(data[0].streams), len(edges)) if shards.count > 1 else 0,
    )
    block = task.block if settings.executor == "stacked" else 1
    engine = Engine(world, settings.online, same_pass=same_pass, block=block)
    end_state = EndState(engine, data[0], from_python=task.data is not None) if task.keep_state else None
    seconds = _run_engine(engine, task, watch, [len(s) for s in data[0].streams], end_state)
    outcomes = [
        RunResult.of(task.name, world, run, data[run], seconds / len(seeds), baselines=task.baselines)
        for run in range(len(seeds))
    ]
    if end_state is not None and (kept := end_state.finish(task.name, task.base_name(data[0]))) is not None:
        outcomes[0] = replace(outcomes[0], end_state=kept.encode())
    stopped = (reason for number, reason in world.log.stopped.items() if number in world.own)
    return outcomes, [f"{task.name}: {note}" for note in (*notes, *stopped)]


def _room_for_guests(method: Method, model: Model, edges: int, here: int) -> int:
    """How many publications of other shards one block of mixing edges may need, as a rule. here: edges of this one."""
    if not method.aggregation.uses_peers:
        return 0
    peers = edges if method.selection.peers is None else method.selection.peers + method.suited(model).others
    return min(MIX_BLOCK * peers, edges - here)


def _run_engine(engine: Engine, task: Task, watch: Watch, events: list[int], end_state: EndState | None) -> float:
    """Run an engine to its end, from a checkpoint on if there is one; returns the seconds that it took."""
    kept, about = task.checkpoints, describe(task.settings.toml(), task.method, task.seeds, events)
    before = restore(engine, kept.file, about) if kept and kept.file.exists() else 0.0
    began = saved = time.perf_counter()
    shards = engine.world.shards

    def look(progress: Progress) -> None:
        nonlocal saved
        whole = Progress.joined(gather(shards, progress))
        stop = shards.rank == 0 and bool(watch(f"{task.name}/{task.seeds[0]}", whole))
        if any(gather(shards, stop)):
            raise TaskStopped
        if kept and time.perf_counter() - saved >= kept.every:
            save(engine, kept.file, about, before + time.perf_counter() - began)
            saved = time.perf_counter()

    engine.run(look, end_state.keep if end_state is not None else lambda _: None)
    seconds = before + time.perf_counter() - began
    if kept and kept.file.exists():  # a run that is finished is not begun again, either
        save(engine, kept.file, about, seconds)
    return seconds


def _backend(
    model: Model, state: ModelState, batches: Batches, executor: str, recordings: RecordingCache | None
) -> tuple[core_gradients.Gradients, bool, list[str]]:
    first = torch.tensor([0], device=state.device)
    batch = batches.get(first, first)
    part = state.select(first)
    rows = [t.gather(t.flat(r)) for t, r in zip(part.tables, batch.rows, strict=True)]
    args = (part.dense, rows, part.buffers, batch.inputs)
    notes = []
    gradients: core_gradients.Gradients = core_gradients.OneAtATime(model)
    if executor == "stacked":
        gradients, reason = core_gradients.choose(model, *args, batch.labels, recordings)
        if reason:
            notes.append(f"{type(model.module).__name__} runs one edge at a time, which is slow: {reason}")
    with fork_randomness(state.device):
        training = gradients.gradient(*args, batch.labels).outputs
    return gradients, bool(torch.allclose(training, gradients.outputs(*args), rtol=1e-4, atol=1e-6)), notes
