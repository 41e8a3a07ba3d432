"""Parameters on their way from the learner to the server: a memory-mapped file with two copies, and no waiting.

The learner writes a new version into the copy that is not current, then makes it the current one; the server reads the
current copy in place. Two counters tell a reader whether its copy was overwritten while it read: ``started``, the
newest version that the writer has started, and ``finished``, the newest that is complete. Version n is in copy n % 2,
so a reader of it was disturbed only if the writer had started n + 2 before the reader was done; then it reads again.

When tables grow, the learner makes a new file and sets a flag in the old one. The row of each key is in a list of
entries that only grows; a version says how many of them belong to it. A new file has all entries, those that the old
one lacks at the end, so that a reader of the old file only has to read these. Nothing here survives a restart: the
learner writes it again from its checkpoint and the journal.
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
Entry = tuple[int, int, int]  # table, key, row
HEADER_BYTES: Final = 4096
STARTED, FINISHED, REPLACED = (
    0,
    1,
    2,
)  # positions of the counters in the header; REPLACED is 1 once there is a newer file
COUNTERS: Final = 8  # int64 each
ALIGNMENT_BYTES: Final = 64
MAX_OPEN_ATTEMPTS: Final = 100
SPARE_ENTRIES: Final = 4096  # room for new entries in a file, beyond as many again as it starts with


class _Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Names, shapes and types of the tensors in each copy, and the schema of their model."""

    schema: str
    generation: int
    previous: tuple[int, int]  # the generation before this one, and how many entries it had
    initial: int  # entries that the file starts with
    new: int  # how many of these, at the end, the previous generation lacks
    tensors: list[tuple[str, list[int], str]]
    capacity: int  # room for entries, of all tables together


@final
@dataclass(frozen=True)
class ParameterVersion:
    """A version of the parameters: its number, and its tensors by name."""

    number: int
    tensors: dict[str, Tensor]


class _File:
    """A mapped file with two copies of the tensors, and the list of entries."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.map = mmap.mmap(file.fileno(), 0)
        self.counters: NDArray[np.int64] = np.frombuffer(self.map, dtype=np.int64, count=COUNTERS)
        length = int.from_bytes(self.map[8 * COUNTERS : 8 * COUNTERS + 8], "little")
        self.layout = msgspec.json.decode(self.map[HEADER_BYTES : HEADER_BYTES + length], type=_Layout)
        start = HEADER_BYTES + _align(length)
        size = _copy_bytes(self.layout)
        self.copies = [_views(self.map, start + c * size, self.layout) for c in range(2)]
        entries = np.frombuffer(self.map, dtype=np.int64, count=3 * self.layout.capacity, offset=start + 2 * size)
        self.entries: NDArray[np.int64] = entries.reshape(-1, 3)

    @classmethod
    def create(cls, path: Path, file: BinaryIO, layout: _Layout) -> "_File":
        """Lay out a file that will be at ``path``; everything but the layout is 0."""
        text = msgspec.json.encode(layout)
        file.truncate(HEADER_BYTES + _align(len(text)) + 2 * _copy_bytes(layout) + 24 * layout.capacity)
        file.seek(8 * COUNTERS)
        file.write(len(text).to_bytes(8, "little"))
        file.seek(HEADER_BYTES)
        file.write(text)
        file.flush()
        return cls(path, file)

    @classmethod
    def open(cls, path: Path) -> "_File":
        """Open an existing file."""
        with path.open("r+b") as file:
            return cls(path, file)


def _align(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _copy_bytes(layout: _Layout) -> int:
    return sum(_align(_tensor_bytes(shape, kind)) for _, shape, kind in layout.tensors)


def _tensor_bytes(shape: Sequence[int], kind: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize


def _views(data: mmap.mmap, start: int, layout: _Layout) -> dict[str, Tensor]:
    views = {}
    for name, shape, kind in layout.tensors:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=kind, count=count, offset=start).reshape(shape)
        views[name] = torch.from_numpy(array)
        start += _align(_tensor_bytes(shape, kind))
    return views


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("parameters-*.bin"))


def _open_or_remove(paths: Sequence[Path]) -> list[_File]:
    """Open the files that can be read and remove the others, which a power cut may leave behind."""
    files = []
    for path in paths:
        try:
            files.append(_File.open(path))
        except (ValueError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)
    return files


@final
class ParameterWriter:
    """The learner's end. schema: of the model; a reader refuses parameters of another schema."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        folder.mkdir(parents=True, exist_ok=True)
        paths = _list_files(folder)
        self._generation = int(paths[-1].stem.partition("-")[2]) if paths else 0
        self._file: _File | None = None
        self._old = _open_or_remove(paths)  # of an earlier learner; their readers will move to the new file
        self._behind: list[dict[str, list[Tensor]]] = [{}, {}]  # for each copy, changed rows that it lacks, by table
        self._entries = 0

    def write(
        self,
        dense: Mapping[str, Tensor],
        tables: Mapping[str, Tensor],
        changed: Mapping[str, Tensor],
        entries: Sequence[Entry],
        all_entries: Callable[[], Sequence[Entry]],
    ) -> int:
        """Write a version, make it the current one and return its number.

        dense: small tensors, written as a whole. tables: [rows, width], of which only the rows in ``changed`` differ
        from the last version. entries: those that are new since then. all_entries: called if a new file is needed.
        """
        tensors = {**dense, **tables}
        if self._file is None or not self._fits(tensors, len(entries)):
            return self._write_new_file(tensors, list(all_entries()), entries)
        number = int(self._file.counters[FINISHED]) + 1
        copy, other = self._file.copies[number % 2], (number + 1) % 2
        self._file.counters[STARTED] = number
        for name, tensor in dense.items():
            copy[name].copy_(tensor)
        for name, table in tables.items():
            rows = changed.get(name)
            missing = self._behind[number % 2].pop(name, [])
            if rows is not None and len(rows):
                missing.append(rows)
                self._behind[other].setdefault(name, []).append(rows)
            if missing:
                stale = torch.cat(missing)
                copy[name][stale] = table[stale]
        if entries:
            self._file.entries[self._entries : self._entries + len(entries)] = entries
            self._entries += len(entries)
        copy["entries"][0] = self._entries
        self._file.counters[FINISHED] = number
        return number

    def _fits(self, tensors: Mapping[str, Tensor], entries: int) -> bool:
        assert self._file is not None
        same = all(self._file.copies[0][name].shape == tensor.shape for name, tensor in tensors.items())
        return same and self._entries + entries <= self._file.layout.capacity

    def _write_new_file(self, tensors: Mapping[str, Tensor], entries: list[Entry], new: Sequence[Entry]) -> int:
        valid = set(entries)
        last = [entry for entry in new if entry in valid]  # a row may have changed its key twice since
        recent = set(last)
        entries = [entry for entry in entries if entry not in recent] + last
        listed = [(name, list(t.shape), str(t.numpy().dtype)) for name, t in tensors.items()]
        previous = (self._generation, self._entries) if self._file is not None else (-1, 0)
        self._generation += 1
        layout = _Layout(
            schema=self.schema,
            generation=self._generation,
            previous=previous,
            initial=len(entries),
            new=len(last),
            tensors=[*listed, ("entries", [1], "int64")],
            capacity=2 * len(entries) + SPARE_ENTRIES,
        )
        path = self.folder / f"parameters-{self._generation:012}.bin"
        old_files = [*self._old, *([self._file] if self._file else [])]
        number = 1 + max((int(f.counters[FINISHED]) for f in old_files), default=0)
        with replacing(path) as file:
            made = _File.create(path, file, layout)
            for copy in made.copies:
                for name, tensor in tensors.items():
                    copy[name].copy_(tensor)
                copy["entries"][0] = len(entries)
            if entries:
                made.entries[: len(entries)] = entries
            made.counters[STARTED] = made.counters[FINISHED] = number
        for old in old_files:
            old.counters[REPLACED] = 1
            old.path.unlink(missing_ok=True)  # a reader that has mapped it keeps it until it moves on
        self._file, self._old, self._behind, self._entries = made, [], [{}, {}], len(entries)
        return number


@final
class ParameterReader:
    """The server's end. Reads only parameters of its schema."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        self._file = self._open()
        self._entries_read = 0
        self.rows: list[dict[int, int]] = []  # by table: key -> row
        self._keys: list[dict[int, int]] = []  # by table: row -> key

    def _open(self) -> _File:
        for _ in range(MAX_OPEN_ATTEMPTS):
            paths = _list_files(self.folder)
            if not paths:
                raise ParametersError(f"{self.folder}: the learner has not written any parameters yet")
            try:
                file = _File.open(paths[-1])
            except FileNotFoundError:  # it was replaced after it was listed
                continue
            except (ValueError, msgspec.MsgspecError):
                raise ParametersError(f"{paths[-1]}: it is incomplete; the learner will write another") from None
            if file.layout.schema == self.schema:
                return file
            raise ParametersError(f"{self.folder}: the learner has not written parameters of this model yet")
        raise ParametersError(f"{self.folder}: the parameters are replaced faster than they can be opened")

    def read(self, use: Callable[[ParameterVersion, Sequence[Mapping[int, int]]], R]) -> R:
        """Return what ``use`` makes of the current version and its rows by key; ``use`` may be called more than once.

        It is called again if the writer has overwritten the copy in the meantime.
        """
        while True:
            if self._file.counters[REPLACED]:
                self._move_to(self._open())
            number = int(self._file.counters[FINISHED])
            tensors = self._file.copies[number % 2]
            count = int(tensors["entries"][0])
            if int(self._file.counters[STARTED]) > number + 1:
                continue  # the count may belong to a version that is not finished
            self._read_entries(count)
            result = use(ParameterVersion(number, tensors), self.rows)
            if int(self._file.counters[STARTED]) <= number + 1:
                return result

    def _move_to(self, new: _File) -> None:
        """Continue with a newer file; keep what is known if the current file is the one before it."""
        generation, count = new.layout.previous
        if self._file.layout.generation == generation and self.rows:
            self._read_entries(count)
            done = new.layout.initial - new.layout.new
        else:
            done, self.rows, self._keys = 0, [], []
        self._file, self._entries_read = new, done

    def _read_entries(self, count: int) -> None:
        for table, key, row in self._file.entries[self._entries_read : count].tolist():
            while len(self.rows) <= table:
                self.rows.append({})
                self._keys.append({})
            previous = self._keys[table].get(row)
            if previous is not None and self.rows[table].get(previous) == row:  # it may have another row by now
                del self.rows[table][previous]
            self.rows[table][key] = row
            self._keys[table][row] = key
        self._entries_read = max(self._entries_read, count)
