"""Parameters on their way from the learner to the server: one file in memory, two copies in it, no waiting.

The learner writes a new version into the copy that nobody should be reading, then says that it is the current one; the
server reads the current one in place. Two counters tell a reader whether its copy was touched while it read: ``begun``,
the newest version that the writer has started, and ``done``, the newest that is complete. ParameterVersion n is in copy n % 2,
so a reader of it was disturbed only if the writer had begun n + 2 by the time it was through; then it reads again.

When tables grow, the learner makes a new file and leaves a mark in the old one. Which row belongs to which key is a
list of pairs to which new ones are added; a version says how many of them belong to it. A new file has all pairs, those
that the old one lacked at the end, so that who comes from there has but to read these. Nothing here survives a
restart: the learner writes it anew from its checkpoint and the journal.
"""

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar, final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.errors import ParametersError
from alphaedge.files import replacing

R = TypeVar("R")
HEADER: Final = 4096
BEGUN, DONE, NEXT = 0, 1, 2  # places of counters in the header, int64 each; NEXT is 1 when a newer file is there
COUNTERS: Final = 8
ALIGNED: Final = 64


class _Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Names, shapes and types of the tensors in each copy, and what model they are of."""

    schema: str
    generation: int
    before: tuple[int, int]  # the generation that this one goes on from, and how many pairs that had
    fresh: int  # pairs at the end of the first ones that it did not have
    first: int  # pairs at the start
    tensors: list[tuple[str, list[int], str]]
    pairs: int  # room for pairs of key and row, of all tables together


@final
@dataclass(frozen=True)
class ParameterVersion:
    """One version: its number and its tensors by name."""

    number: int
    tensors: dict[str, Tensor]


class _File:
    """A mapped file with two copies of some tensors, and the list of pairs."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.map = mmap.mmap(file.fileno(), 0)
        self.counters: NDArray[np.int64] = np.frombuffer(self.map, dtype=np.int64, count=COUNTERS)
        length = int.from_bytes(self.map[8 * COUNTERS : 8 * COUNTERS + 8], "little")
        self.layout = msgspec.json.decode(self.map[HEADER : HEADER + length], type=_Layout)
        start = HEADER + _aligned(length)
        each = _size(self.layout)
        self.copies = [_views(self.map, start + c * each, self.layout) for c in range(2)]
        pairs = np.frombuffer(self.map, dtype=np.int64, count=3 * self.layout.pairs, offset=start + 2 * each)
        self.pairs: NDArray[np.int64] = pairs.reshape(-1, 3)  # table, key, row

    @classmethod
    def create(cls, path: Path, file: BinaryIO, layout: _Layout) -> "_File":
        """Lay out an empty file that will be at ``path``; everything but the layout is 0."""
        text = msgspec.json.encode(layout)
        file.truncate(HEADER + _aligned(len(text)) + 2 * _size(layout) + 24 * layout.pairs)
        file.seek(8 * COUNTERS)
        file.write(len(text).to_bytes(8, "little"))
        file.seek(HEADER)
        file.write(text)
        file.flush()
        return cls(path, file)

    @classmethod
    def open(cls, path: Path) -> "_File":
        """Open a file that is there."""
        with path.open("r+b") as file:
            return cls(path, file)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _size(layout: _Layout) -> int:
    return sum(_aligned(_bytes(shape, kind)) for _, shape, kind in layout.tensors)


def _bytes(shape: Sequence[int], kind: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize


def _views(data: mmap.mmap, start: int, layout: _Layout) -> dict[str, Tensor]:
    found = {}
    for name, shape, kind in layout.tensors:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=kind, count=count, offset=start).reshape(shape)
        found[name] = torch.from_numpy(array)
        start += _aligned(_bytes(shape, kind))
    return found


def _names(folder: Path) -> list[Path]:
    return sorted(folder.glob("parameters-*.bin"))


def _whole(paths: Sequence[Path]) -> list[_File]:
    """Files that can be read; others, which a power cut may leave, are removed: they are of no use to anybody."""
    found = []
    for path in paths:
        try:
            found.append(_File.open(path))
        except (ValueError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)
    return found


@final
class ParameterWriter:
    """The learner's end. schema: of the model, so that nobody predicts with another one's parameters."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        folder.mkdir(parents=True, exist_ok=True)
        found = _names(folder)
        self._generation = int(found[-1].stem.partition("-")[2]) if found else 0
        self._file: _File | None = None
        self._old = _whole(found)  # of a learner that is no more; its readers come over
        self._behind: list[dict[str, list[Tensor]]] = [{}, {}]  # rows that each copy lacks, by table
        self._pairs = 0

    def write(
        self,
        dense: Mapping[str, Tensor],
        tables: Mapping[str, Tensor],
        changed: Mapping[str, Tensor],
        pairs: Sequence[tuple[int, int, int]],
        every_pair: Callable[[], Sequence[tuple[int, int, int]]],
    ) -> int:
        """Write a version and make it the current one; its number.

        dense: small tensors, written whole. tables: [rows, width], of which only the rows in ``changed`` differ from
        the last version. pairs: (table, key, row) that are new since then; ``every_pair``: all of them, if a new file
        is needed.
        """
        whole = {**dense, **tables}
        if self._file is None or not self._fits(whole, len(pairs)):
            return self._anew(whole, list(every_pair()), pairs)
        number = int(self._file.counters[DONE]) + 1
        copy, other = self._file.copies[number % 2], (number + 1) % 2
        self._file.counters[BEGUN] = number
        for name, tensor in dense.items():
            copy[name].copy_(tensor)
        for name, table in tables.items():
            rows = changed.get(name)
            lacking = self._behind[number % 2].pop(name, [])
            if rows is not None and len(rows):
                lacking.append(rows)
                self._behind[other].setdefault(name, []).append(rows)
            if lacking:
                some = torch.cat(lacking)
                copy[name][some] = table[some]
        if pairs:
            self._file.pairs[self._pairs : self._pairs + len(pairs)] = pairs
            self._pairs += len(pairs)
        copy["pairs"][0] = self._pairs
        self._file.counters[DONE] = number
        return number

    def _fits(self, whole: Mapping[str, Tensor], pairs: int) -> bool:
        assert self._file is not None
        same = all(self._file.copies[0][name].shape == tensor.shape for name, tensor in whole.items())
        return same and self._pairs + pairs <= self._file.layout.pairs

    def _anew(
        self, whole: Mapping[str, Tensor], pairs: list[tuple[int, int, int]], fresh: Sequence[tuple[int, int, int]]
    ) -> int:
        there = set(pairs)
        last = [pair for pair in fresh if pair in there]  # a row may have changed hands twice since
        there = set(last)
        pairs = [pair for pair in pairs if pair not in there] + last
        listed = [(name, list(t.shape), str(t.numpy().dtype)) for name, t in whole.items()]
        goes_on = (self._generation, self._pairs) if self._file is not None else (-1, 0)
        self._generation += 1
        layout = _Layout(
            schema=self.schema,
            generation=self._generation,
            before=goes_on,
            fresh=len(last),
            first=len(pairs),
            tensors=[*listed, ("pairs", [1], "int64")],
            pairs=2 * len(pairs) + 4096,
        )
        path = self.folder / f"parameters-{self._generation:012}.bin"
        before = [*self._old, *([self._file] if self._file else [])]
        number = 1 + max((int(f.counters[DONE]) for f in before), default=0)
        with replacing(path) as file:
            made = _File.create(path, file, layout)
            for copy in made.copies:
                for name, tensor in whole.items():
                    copy[name].copy_(tensor)
                copy["pairs"][0] = len(pairs)
            if pairs:
                made.pairs[: len(pairs)] = pairs
            made.counters[BEGUN] = made.counters[DONE] = number
        for old in before:
            old.counters[NEXT] = 1
            old.path.unlink(missing_ok=True)  # who reads it keeps it until it comes over
        self._file, self._old, self._behind, self._pairs = made, [], [{}, {}], len(pairs)
        return number


@final
class ParameterReader:
    """The server's end; reads only parameters of its schema."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        self._file = self._open()
        self._taken = 0
        self.rows: list[dict[int, int]] = []  # by table: key -> row
        self._keys: list[dict[int, int]] = []  # by table: row -> key

    def _open(self) -> _File:
        for _ in range(100):  # a file may be replaced between looking and opening
            found = _names(self.folder)
            if not found:
                raise ParametersError(f"{self.folder}: the learner has not written any parameters yet")
            try:
                file = _File.open(found[-1])
            except FileNotFoundError:
                continue
            except (ValueError, msgspec.MsgspecError):
                raise ParametersError(f"{found[-1]}: it is not whole; the learner will write another") from None
            if file.layout.schema == self.schema:
                return file
            raise ParametersError(f"{self.folder}: the learner has not written parameters of this model yet")
        raise ParametersError(f"{self.folder}: the parameters are replaced faster than they can be opened")

    def read(self, use: Callable[[ParameterVersion, Sequence[Mapping[int, int]]], R]) -> R:
        """What ``use`` makes of the current version and the rows of keys in it; called again if it was disturbed."""
        while True:
            if self._file.counters[NEXT]:
                self._go_on(self._open())
            number = int(self._file.counters[DONE])
            tensors = self._file.copies[number % 2]
            count = int(tensors["pairs"][0])
            if int(self._file.counters[BEGUN]) > number + 1:
                continue  # that count may be of a version which is not done
            self._catch_up(count)
            found = use(ParameterVersion(number, tensors), self.rows)
            if int(self._file.counters[BEGUN]) <= number + 1:
                return found

    def _go_on(self, new: _File) -> None:
        """Come over to a newer file, with all that is known from the old one if it was the one before."""
        generation, count = new.layout.before
        if self._file.layout.generation == generation and self.rows:
            self._catch_up(count)
            taken = new.layout.first - new.layout.fresh
        else:
            taken, self.rows, self._keys = 0, [], []
        self._file, self._taken = new, taken

    def _catch_up(self, count: int) -> None:
        for table, key, row in self._file.pairs[self._taken : count].tolist():
            while len(self.rows) <= table:
                self.rows.append({})
                self._keys.append({})
            before = self._keys[table].get(row)
            if before is not None and self.rows[table].get(before) == row:  # it may have another by now
                del self.rows[table][before]
            self.rows[table][key] = row
            self._keys[table][row] = key
        self._taken = max(self._taken, count)
