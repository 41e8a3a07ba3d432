"""What a caller sends, as the model takes it: checked field by field, ids turned into keys, packed for the journal.

An example is packed into as many bytes as its fields need, all fields end to end, so that a batch of them is one array.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.edge.config import FieldConfig
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.errors import InvalidValue

Array = NDArray[Any]
EXAMPLES: Final = 3
LARGEST: Final = 1e9  # of numbers and labels: their squares are learned from, in 32 bits


@final
class Features:
    """The fields of one model, and the secret under which ids become keys."""

    def __init__(self, fields: Sequence[FieldConfig], secret: bytes) -> None:
        self.fields, self._secret = tuple(fields), secret
        self._names = {f.name for f in fields}
        self._kind = np.dtype([(f.name, *_packed(f)) for f in fields])

    @property
    def size(self) -> int:
        """Bytes of one example."""
        return self._kind.itemsize

    @property
    def layout(self) -> int:
        """A number for how examples are packed: the same for the same fields."""
        told = repr([(f.name, f.kind, f.size if f.kind != "id" else 0) for f in self.fields])
        return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest()) >> 1

    def take(self, inputs: Mapping[str, Array]) -> Array:
        """A caller's inputs as packed examples [B], if they are what was declared."""
        if inputs.keys() != self._names:
            self._refuse_names(inputs)
        count = len(inputs[self.fields[0].name])
        for name, array in inputs.items():
            if len(array) != count:
                allowed = f"{count} examples, as {self.fields[0].name} has"
                raise InvalidValue(f"inputs.{name}.shape", len(array), allowed)
        if count == 0:
            raise InvalidValue("inputs", "no example", "at least one")
        # All is checked before anything is allocated: a shape of [10^9, 0] costs its sender nothing.
        columns = {field.name: self._values(field, inputs[field.name]) for field in self.fields}
        packed = np.empty(count, dtype=self._kind)
        for name, column in columns.items():
            packed[name] = column
        return packed

    def _refuse_names(self, inputs: Mapping[str, Array]) -> None:
        for name in inputs:
            if name not in self._names:
                raise InvalidValue("inputs", name, "one of " + ", ".join(f.name for f in self.fields))
        missing = [f.name for f in self.fields if f.name not in inputs]
        raise InvalidValue("inputs", list(inputs), f"also {missing[0]}")

    def _values(self, field: FieldConfig, given: Array) -> Array:
        where = f"inputs.{field.name}"
        wide = field.kind in ("set", "number")
        size = field.size if wide else 1
        if given.size != len(given) * size:
            raise InvalidValue(f"{where}.shape", list(given.shape), f"[{len(given)}, {size}]")
        flat = given.reshape(len(given), size) if wide and size > 1 else given.reshape(len(given))
        if field.kind == "id":
            if flat.dtype.kind not in "iuO":
                raise InvalidValue(f"{where}.datatype", _datatype(flat), "whole numbers or BYTES for an id")
            ids: Any = flat.tolist()
            return np.array([key_of(value, self._secret) for value in ids], dtype=np.int64)
        if field.kind == "category":
            if flat.dtype.kind not in "iub":
                raise InvalidValue(f"{where}.datatype", _datatype(flat), "whole numbers for a category")
            if flat.astype(np.int64).view(np.uint64).max() >= field.size:  # a number below 0 is a huge one there
                wrong = (flat < 0) | (flat >= field.size)
                raise InvalidValue(where, int(flat[wrong][0]), f"a category from 0 to {field.size - 1}")
            return flat
        if flat.dtype.kind not in "iufb":
            raise InvalidValue(f"{where}.datatype", _datatype(flat), "numbers")
        numbers = flat
        if flat.dtype != np.float32:
            with np.errstate(over="ignore"):
                numbers = flat.astype(np.float32)
        if not np.abs(numbers).max() <= LARGEST:  # nor is NaN
            wrong = flat[~(np.abs(numbers) <= LARGEST)][0]
            raise InvalidValue(where, float(wrong), f"finite numbers of at most {LARGEST:g} in size")
        return numbers

    def example(self) -> Array:
        """Packed examples that mean nothing, of different values."""
        made = np.zeros(EXAMPLES, dtype=self._kind)
        for field in self.fields:
            number = np.arange(made[field.name].size).reshape(made[field.name].shape)
            sizes = {"id": made.size, "category": field.size, "set": 2}
            made[field.name] = number % sizes[field.kind] if field.kind in sizes else np.cos(number)
        return made

    def pack(self, examples: Array) -> list[bytes]:
        """Packed examples one by one, for the journal."""
        raw, size = examples.tobytes(), self.size
        return [raw[at : at + size] for at in range(0, len(raw), size)]

    def unpack(self, examples: Sequence[bytes]) -> Array:
        """Packed examples from the journal."""
        if any(len(e) != self.size for e in examples):
            raise InvalidValue("features", f"{len(examples[0])} bytes", f"{self.size}: the model's fields have changed")
        return np.frombuffer(b"".join(examples), dtype=self._kind)

    def tensors(self, examples: Array, names: Sequence[str]) -> list[Tensor]:
        """The fields that a model takes, [B] or [B, size], in its order."""
        kinds = {f.name: f for f in self.fields}
        found = []
        for name in names:
            column = torch.from_numpy(np.ascontiguousarray(examples[name]).copy())
            wide = kinds[name].kind in ("set", "number")
            found.append(column.view(len(column), -1) if wide else column)
        return found


def _packed(field: FieldConfig) -> tuple[str] | tuple[str, tuple[int, ...]]:
    if field.kind in ("id", "category"):
        return ("<i8",)
    return ("<f4", (field.size,)) if field.size > 1 else ("<f4",)


def _datatype(array: Array) -> str:
    return "BYTES" if array.dtype == object else str(array.dtype)
