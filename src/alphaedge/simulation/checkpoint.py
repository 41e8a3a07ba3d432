"""Checkpoints of a run under way: everything that the engine moves, so that a run goes on as if nothing had happened.

A checkpoint is a file of tensors and plain values. Reading one runs no code.
"""

import importlib.metadata
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final, final

import msgspec
import torch
from torch import Tensor

from alphaedge.core.links import Links
from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue
from alphaedge.files import replacing
from alphaedge.simulation.adversaries import Adversaries
from alphaedge.simulation.engine import Engine
from alphaedge.simulation.run_log import Mix, PullCount
from alphaedge.simulation.world import Announcement, Phase, World

EVERY_SECONDS: Final = 300.0


@final
class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    """What is no tensor. ``about``: of which task it is."""

    about: str
    seconds: float
    published_at: list[list[float]]
    links: list[Links[int]]
    announced: list[list[Announcement]]
    phase: list[Phase]
    at: list[int]
    moment: list[float]
    pending: list[list[int]]
    mixes: list[list[Mix]]
    pulls: list[dict[int, PullCount]]
    beyond_start: list[int]
    resets: list[list[int]]
    stopped: dict[int, str]
    ledgers: list[Ledger[int]] = []
    private_batches: list[int] = []


@final
@dataclass(frozen=True)
class Checkpoints:
    """Where the checkpoints of one task go, and after how many seconds the next one is written."""

    file: Path
    every: float = EVERY_SECONDS


def save(engine: Engine, file: Path, about: str, seconds: float) -> None:
    """Write a checkpoint in the place of an earlier one; it is on disk when this returns."""
    world, log = engine.world, engine.world.log
    plain = _Plain(
        about=about,
        seconds=seconds,
        published_at=world.published_at,
        links=world.links,
        announced=world.announced,
        phase=world.phase,
        at=world.at,
        moment=world.moment,
        pending=world.pending,
        mixes=log.mixes,
        pulls=log.pulls,
        beyond_start=log.beyond_start,
        resets=log.resets,
        stopped=log.stopped,
        **_private(world),
    )
    tensors = dict(_tensors(engine)) | dict(_forgeries(world.adversaries)) | {"random": torch.get_rng_state()}
    encoded = torch.frombuffer(bytearray(msgspec.msgpack.encode(plain)), dtype=torch.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file, durable=True) as opened:
        torch.save({"plain": encoded, **tensors}, opened)


def restore(engine: Engine, file: Path, about: str) -> float:
    """Bring an engine to where a checkpoint was written; returns the seconds that the run had taken until then."""
    try:
        found = torch.load(file, weights_only=True, mmap=True, map_location=engine.world.device)
        plain = msgspec.msgpack.decode(found.pop("plain").cpu().numpy().tobytes(), type=_Plain)
        if plain.about != about:
            raise InvalidValue("checkpoint", str(file), "one of the same simulation and version")
        parts = [(tensor, found.pop(name)) for name, tensor in _tensors(engine)]
        if any(tensor.shape != part.shape for tensor, part in parts):
            raise ValueError("a tensor has another shape")
        random = found.pop("random").cpu()
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError, EOFError, UnpicklingError) as error:
        raise InvalidValue("checkpoint", str(file), f"a file that can be read ({error})") from error
    torch.set_rng_state(random)
    for tensor, part in parts:
        tensor.copy_(part)
    world, log = engine.world, engine.world.log
    for name, tensor in found.items():
        world.adversaries.first.setdefault(int(name.split(".")[1]), []).append(tensor.clone())
    world.published_at, world.links, world.announced = plain.published_at, plain.links, plain.announced
    world.phase, world.at, world.moment, world.pending = plain.phase, plain.at, plain.moment, plain.pending
    log.mixes, log.pulls, log.beyond_start = plain.mixes, plain.pulls, plain.beyond_start
    log.resets, log.stopped = plain.resets, plain.stopped
    if (releases := world.releases) is not None:
        releases.ledgers, releases.done = plain.ledgers, plain.private_batches
    return plain.seconds


def describe(*parts: object) -> str:
    """What a checkpoint must have in common with the task that goes on from it; the versions count too."""
    text = "\n".join(map(str, (importlib.metadata.version("alphaedge"), torch.__version__, *parts)))
    return re.sub(r" at 0x[0-9a-f]+", "", text)  # where an object of the user's lies means nothing


def _tensors(engine: Engine) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that the engine moves, by name."""
    world = engine.world
    log, published = world.log, world.published
    yield from _model_tensors(engine.world.stack)
    if world.before is not None:
        yield from _model_tensors(world.before, "before")
    yield from engine.judge.tensors() if engine.judge else ()
    if world.releases is not None:
        yield from _model_tensors(world.releases.models, "released")
        yield from world.releases.tensors()
    for name in ("number", "records", "dense"):  # of the edges here: guests come and go
        yield f"published.{name}", getattr(published, name)
    for t, (table, version) in enumerate(zip(published.tables, published.version, strict=True)):
        yield f"published.table.{t}", table
        yield f"published.version.{t}", version
    yield "published.residual", published.residual_dense
    for t, residual in enumerate(published.residual_rows):
        yield f"published.residual.{t}", residual
    for name, statistic in published.statistics.items():
        yield f"published.statistic.{name}", statistic
    yield "records", world.records
    yield "aggregations", world.aggregations
    for t, (trained, since) in enumerate(zip(world.trained, world.named.since, strict=True)):
        yield f"trained.{t}", trained
        yield f"named_since.{t}", since
    for t, marks in enumerate(world.named.marks):
        yield f"marks.{t}", marks
    for name in ("predictions", "scores", "done", "bytes"):
        yield f"log.{name}", getattr(log, name)


def _private(world: World) -> dict[str, Any]:
    """What private publication remembers, if there is any."""
    releases = world.releases
    if releases is None:
        return {}
    return {"ledgers": releases.ledgers, "private_batches": releases.done}


def _forgeries(adversaries: Adversaries) -> Iterator[tuple[str, Tensor]]:
    """The first publications of hostile edges, by edge, in their order."""
    for edge, parts in adversaries.first.items():
        for place, part in enumerate(parts):
            yield f"forgery.{edge}.{place}", part


def _model_tensors(models: ModelState, prefix: str = "models") -> Iterator[tuple[str, Tensor]]:
    for name in ("dense", "dense_m", "dense_v", "steps"):
        yield f"{prefix}.{name}", getattr(models, name)
    for t, table in enumerate(models.tables):
        for name in ("value", "m", "v"):
            yield f"{prefix}.table.{t}.{name}", getattr(table, name)
    for name, buffer in models.buffers.items():
        yield f"{prefix}.buffer.{name}", buffer
