"""Checkpoints: the whole state of a learner in a file that is complete or not there.

One is written at the end of each round; until the next, only the journal moves the state. A restart takes the newest
good checkpoint and learns what the journal has since. The last two are kept: if the newest is damaged, the one before
it and a longer part of the journal give the same state, without the aggregations in between. The newest checkpoint of
each other recent schema is kept too, for a rollback to an earlier model.

Tensors are in safetensors format, everything else is JSON in its header. The file name has a checksum of all bytes.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from alphaedge.core.compression import residual_columns
from alphaedge.core.links import Ear, Link, Links
from alphaedge.edge.inputs.numbering import Numbering
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.id_tables import fit_columns
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.other_rows import OtherRows
from alphaedge.edge.learning.private_state import PrivateHeader, header_of, load_private, private_tensors
from alphaedge.edge.learning.publication import Publication
from alphaedge.edge.learning.state_tensors import load_state, state_tensors
from alphaedge.errors import CheckpointError, InvalidValue
from alphaedge.files import sync_folder

MAX_KEPT: Final = 2
MAX_OTHER_SCHEMAS: Final = 3
SPARE: Final = "spare.part"  # an old checkpoint that the next one overwrites
PIECE_BYTES: Final = 1 << 18  # written and synced at once
_ROW_STATE: Final = ("trained", "version")  # of an id table, by row
_NAMES: Final = ("named_since", "marks")
NAME: Final = re.compile(r"checkpoint-([0-9a-z]+)-(\d{12})-([0-9a-f]{32})\.safetensors")


@final
class Progress(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How far a learner is in its journal, and the scores of its predictions so far.

    feedback: number of the last feedback in the state. scores: batches that have a score. total: sum of the scores.
    compared: of those, batches on which the home model alone has a score, too. gain: sum of the differences to it.
    batches: learned. undone: batches that were undone. rollbacks: to an earlier state. rolled_back_at: the aggregation
    that the last of them counts as, -1 without one.
    """

    feedback: int = 0
    scores: int = 0
    total: float = 0.0
    compared: int = 0
    gain: float = 0.0
    batches: int = 0
    undone: int = 0
    rollbacks: int = 0
    rolled_back_at: int = -1


class _Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of the state that is not tensors."""

    schema: str
    name: str
    seed: int
    progress: Progress
    records: int
    revealed: int
    aggregations: int
    rule: str  # the aggregation rule that the weights belong to
    own: Link
    neighbours: list[str]
    known: dict[str, Link]
    publication: tuple[int, int]  # number, records
    held: dict[str, tuple[int, int]]  # number, records
    others: list[str] = []  # earlier versions heard nobody beside the neighbours
    ears: dict[str, Ear] = {}
    heard: dict[str, int] = {}  # number
    topology: dict[str, float]
    private: PrivateHeader | None = None  # the released model, if there is one


@final
class Checkpoints:
    """A folder with the checkpoints of one edge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, learner: Learner, schema: str, progress: Progress) -> Path:
        """Write the state; it is on disk when this returns."""
        if learner.waiting:
            raise CheckpointError("no checkpoint while batches wait for a mix")
        data = pack_state(learner, schema, progress)
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        path = self.folder / f"checkpoint-{schema}-{learner.aggregations:012}-{digest}.safetensors"
        spare = self.folder / SPARE
        _write(spare, data)
        os.replace(spare, path)
        sync_folder(self.folder)
        self._clear(schema)
        return path

    def any(self, schema: str) -> bool:
        """Whether there is a checkpoint of a schema, valid or not."""
        return bool(self._found(schema))

    def others(self, schema: str) -> set[str]:
        """Other schemas with checkpoints."""
        return {match[1] for p in self.folder.iterdir() if (match := NAME.fullmatch(p.name))} - {schema}

    def restore(self, learner: Learner, schema: str) -> tuple[Progress, list[str]]:
        """Load the newest undamaged checkpoint of a schema into a new learner.

        Returns its progress, zero if there is no checkpoint, and the reasons why newer ones were set aside. One that
        can't be read or does not fit is an error: the machine or the configuration has to change, not the file.
        """
        wrong: list[str] = []
        for path in self._found(schema):
            try:
                data = _read(path)
            except CheckpointError as error:
                wrong.append(f"{path}: {error}")
                os.replace(path, path.with_suffix(".refused"))  # kept for inspection, out of the way of later ones
                continue
            except OSError as error:
                raise CheckpointError(f"{path}: it can't be read ({error.strerror})") from error
            try:
                return unpack_state(learner, data, schema), wrong
            except KeyError as error:
                raise CheckpointError(f"{path}: it lacks {error}") from error
            except (CheckpointError, SafetensorError, msgspec.MsgspecError, InvalidValue) as error:
                raise CheckpointError(f"{path}: {error}") from error
        return Progress(), wrong

    def saved(self, schema: str) -> Iterator[tuple[str, bytes]]:
        """The names and bytes of the checkpoints of a schema that can be read, the newest first."""
        for path in self._found(schema):
            with contextlib.suppress(OSError, CheckpointError):
                yield path.name, _read(path)

    def _clear(self, schema: str) -> None:
        """Remove all but the last checkpoints of this schema and the newest of each other recent schema."""
        newest = [self._found(other)[0] for other in self.others(schema)]
        newest.sort(key=lambda p: p.stat().st_mtime_ns, reverse=True)
        kept = {*self._found(schema)[:MAX_KEPT], *newest[:MAX_OTHER_SCHEMAS]}
        old = sorted(path for path in self.folder.iterdir() if path not in kept and NAME.fullmatch(path.name))
        for path in old[:1]:
            os.replace(path, self.folder / SPARE)
        for path in (*old[1:], *(p for p in self.folder.glob("*.part") if p.name != SPARE)):
            path.unlink(missing_ok=True)

    def _found(self, schema: str) -> list[Path]:
        """Checkpoints of a schema, the newest first."""
        named = ((NAME.fullmatch(p.name), p) for p in self.folder.iterdir())
        return sorted((p for match, p in named if match and match[1] == schema), reverse=True)


def _read(path: Path) -> bytes:
    """The bytes of a checkpoint; ``CheckpointError`` if it is damaged."""
    data, match = path.read_bytes(), NAME.fullmatch(path.name)
    if match is None or hashlib.blake2b(data, digest_size=16).hexdigest() != match[3]:
        raise CheckpointError("its checksum differs from the one in its name")
    return data


def _write(path: Path, data: bytes) -> None:
    """Overwrite a file in small pieces, each synced to disk.

    The server's journal is on the same disk, and callers wait for it. Overwriting an old checkpoint allocates no new
    blocks, and small pieces never keep the journal waiting for long.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        for start in range(0, len(data), PIECE_BYTES):
            piece = memoryview(data)[start : start + PIECE_BYTES]
            while piece:
                done = os.pwrite(file, piece, start)
                piece, start = piece[done:], start + done
            os.fdatasync(file)
        if os.fstat(file).st_size != len(data):
            os.ftruncate(file, len(data))
            os.fsync(file)
    finally:
        os.close(file)


def pack_state(learner: Learner, schema: str, progress: Progress) -> bytes:
    """The whole state of a learner as bytes."""
    header = msgspec.json.encode(_header(learner, schema, progress)).decode()
    return encode(_tensors(learner), {"alphaedge": header})


def _rule_name(learner: Learner) -> str:
    return type(learner.method.aggregation).__qualname__


def _header(learner: Learner, schema: str, progress: Progress) -> _Header:
    return _Header(
        schema=schema,
        name=learner.name,
        seed=learner.seed,
        progress=progress,
        records=learner.records,
        revealed=learner.revealed,
        aggregations=learner.aggregations,
        rule=_rule_name(learner),
        own=learner.links.own,
        neighbours=learner.links.neighbours,
        known=learner.links.known,
        publication=(learner.publication.number, learner.publication.records),
        held={peer: (held.number, held.records) for peer, held in learner.held.items()},
        others=learner.links.others,
        ears=learner.links.ears,
        heard={peer: held.number for peer, held in learner.heard.held.items()},
        topology=learner.topology,
        private=header_of(learner.private),
    )


def _tensors(learner: Learner) -> dict[str, Tensor]:
    found = {"evidence": learner.evidence, "unused": learner.unused}
    found |= {"published.dense": learner.publication.dense, "published.residual": learner.publication.residual}
    for who, state in learner.states.items():
        found |= state_tensors(who, state)
    found |= private_tensors(learner.private)
    for t, table in enumerate(learner.tables):
        found[f"{t}.keys"] = torch.tensor(table.numbering.keys_by_row(), dtype=torch.long)
        found[f"{t}.order"] = torch.tensor(table.numbering.rows_by_last_use(), dtype=torch.long)
        found |= {f"{t}.{name}": getattr(table, name) for name in (*_ROW_STATE, *_NAMES, "published", "residual")}
    found |= {f"published.buffer.{name}": b for name, b in learner.publication.statistics.items()}
    for peer, held in learner.held.items():
        found[f"held.{peer}.dense"] = held.dense
        found |= {f"held.{peer}.buffer.{name}": b for name, b in held.statistics.items()}
        for t, (rows, has, others) in enumerate(zip(held.rows, held.has, held.others, strict=True)):
            found |= {f"held.{peer}.{t}.rows": rows, f"held.{peer}.{t}.has": has}
            found |= {f"held.{peer}.{t}.other_keys": others.keys, f"held.{peer}.{t}.other_rows": others.rows}
    for peer, held in learner.heard.held.items():
        found |= {f"heard.{peer}.{t}.rows": rows for t, rows in enumerate(held.rows)}
        found |= {f"heard.{peer}.{t}.has": has for t, has in enumerate(held.has)}
    return {name: tensor.contiguous() for name, tensor in found.items()}


def unpack_state(learner: Learner, data: bytes, schema: str) -> Progress:
    """Load a state into a new learner; its progress."""
    length = int.from_bytes(data[:8], "little")
    text = msgspec.json.decode(data[8 : 8 + length])["__metadata__"]["alphaedge"]
    header = msgspec.json.decode(text, type=_Header)
    for field, found, wanted in (
        ("schema", header.schema, schema),
        ("edge", header.name, learner.name),
        ("seed", header.seed, learner.seed),
    ):
        if found != wanted:
            raise CheckpointError(f"it was written for {field} {found}, not {wanted}")
    tensors = decode(data)
    if {who for who in ("mixed", "home") if f"{who}.dense" in tensors} != set(learner.states):
        raise CheckpointError("it was written for a method that differs in its home model")
    for t, table in enumerate(learner.tables):
        if len(tensors[f"{t}.keys"]) > (capacity := table.numbering.capacity):
            found = f"{len(tensors[f'{t}.keys'])} ids of table {learner.model.tables[t].name}"
            raise CheckpointError(f"it has {found}, and the sizes of its fields allow {capacity}")
    numberings = [
        Numbering.restore(table.numbering.capacity, tensors[f"{t}.keys"].tolist(), tensors[f"{t}.order"].tolist())
        for t, table in enumerate(learner.tables)
    ]
    learner.evidence, learner.unused = tensors.get("evidence", learner.evidence), tensors.get("unused", learner.unused)
    for who, state in learner.states.items():
        load_state(who, state, tensors)
    for t, table in enumerate(learner.tables):
        table.numbering = numberings[t]
        told = table.published.shape[1]
        for name in _ROW_STATE:
            setattr(table, name, tensors[f"{t}.{name}"])
        since = f"{t}.named_since" if f"{t}.named_since" in tensors else f"{t}.known_since"  # what it was called before
        table.restore_names(tensors[since], tensors.get(f"{t}.marks"), header.aggregations)
        table.published = fit_columns(tensors[f"{t}.published"], told)
        residual = tensors.get(f"{t}.residual", table.published[:, :0])  # earlier versions kept none
        table.residual = fit_columns(residual, residual_columns(table.width, learner.method.precision))
    dense = tensors["published.dense"]
    learner.publication = Publication(
        *header.publication,
        dense,
        _statistics(tensors, "published.buffer."),
        tensors.get("published.residual", dense[:0]),
    )
    learner.held = {peer: _held(learner, tensors, peer, *of) for peer, of in header.held.items()}
    others = list(header.others) if learner.method.others else []
    learner.heard.held = {j: _heard(learner, tensors, j, number) for j, number in header.heard.items() if j in others}
    links = header.own, list(header.neighbours), dict(header.known), others, dict(header.ears)
    learner.links = Links(*links)
    if header.rule != _rule_name(learner):  # another rule's weights mean nothing to this one
        learner.links = Links.start(header.neighbours, learner.method.aggregation.memory)
    learner.records, learner.revealed, learner.aggregations = header.records, header.revealed, header.aggregations
    learner.topology = dict(header.topology)
    load_private(learner, header.private, tensors)
    learner.note_round_end()
    return header.progress


def _held(learner: Learner, tensors: Mapping[str, Tensor], peer: str, number: int, records: int) -> HeldModel:
    made = HeldModel(learner.mixed.dense[0], learner.tables)
    made.number, made.records, made.dense = number, records, tensors[f"held.{peer}.dense"]
    made.statistics = _statistics(tensors, f"held.{peer}.buffer.")
    tables = enumerate(learner.tables)
    made.rows = [fit_columns(tensors[f"held.{peer}.{t}.rows"], table.published.shape[1]) for t, table in tables]
    made.has = [tensors[f"held.{peer}.{t}.has"] for t in range(len(learner.tables))]
    if f"held.{peer}.0.other_keys" in tensors:  # older checkpoints have none
        made.others = [
            OtherRows(
                tensors[f"held.{peer}.{t}.other_keys"],
                fit_columns(tensors[f"held.{peer}.{t}.other_rows"], table.published.shape[1]),
            )
            for t, table in enumerate(learner.tables)
        ]
    return made


def _heard(learner: Learner, tensors: Mapping[str, Tensor], peer: str, number: int) -> HeldModel:
    made = learner.heard.none()
    made.number = number
    tables = range(len(learner.tables))
    made.rows = [fit_columns(tensors[f"heard.{peer}.{t}.rows"], learner.heard.columns[t]) for t in tables]
    made.has = [tensors[f"heard.{peer}.{t}.has"] for t in tables]
    return made


def _statistics(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
