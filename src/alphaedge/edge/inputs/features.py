"""A caller's inputs, checked field by field, with keys for ids and categories, as arrays, bytes and tensors.

An example takes as many bytes as its fields need, one after the other, so that a batch is one structured array.
"""

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.core.fields import KEYED, WHOLE
from alphaedge.edge.config import FieldConfig
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.errors import InvalidValue
from alphaedge.steps import Steps, run_at_once

Array = NDArray[Any]
SAMPLE_SIZE: Final = 3
STEP_EXAMPLES: Final = 256  # that one step encodes
MAX_MAGNITUDE: Final = 1e9  # of numbers and labels: learning squares them, in 32 bits


@final
class Features:
    """The fields of one model. secret: the fleet's, under which values become keys."""

    def __init__(self, fields: Sequence[FieldConfig], secret: bytes) -> None:
        self.fields, self._secret = tuple(fields), secret
        self._names = {f.name for f in fields}
        self._dtype = np.dtype([(f.name, *_column_type(f)) for f in fields])

    @property
    def layout(self) -> int:
        """A number for the layout of examples: the same for the same fields."""
        fields = repr([(f.name, f.kind, f.size if f.kind not in KEYED else 0) for f in self.fields])
        return int.from_bytes(hashlib.blake2b(fields.encode(), digest_size=8).digest()) >> 1

    def encode(self, inputs: Mapping[str, Array]) -> Array:
        """Check a caller's inputs and return them as a structured array of examples [B]."""
        return run_at_once(self.encode_in_steps(inputs))

    def encode_in_steps(self, inputs: Mapping[str, Array]) -> Steps[Array]:
        """Check and encode a caller's inputs in short steps: a few hundred examples at a time."""
        # All shapes are checked before anything is allocated: a shape of [10^9, 0] costs its sender nothing.
        count = self.check_shapes({name: values.shape for name, values in inputs.items()})
        examples = np.empty(count, dtype=self._dtype)
        if count <= STEP_EXAMPLES:
            for field in self.fields:
                examples[field.name] = self._check_values(field, inputs[field.name])
            return examples
        keyed = [field for field in self.fields if field.kind in KEYED]
        others = [field for field in self.fields if field.kind not in KEYED]
        for fields in (others, keyed):  # keys last: only they take long
            for start in range(0, count, STEP_EXAMPLES):
                for field in fields:
                    part = inputs[field.name][start : start + STEP_EXAMPLES]
                    examples[field.name][start : start + STEP_EXAMPLES] = self._check_values(field, part)
                yield
        return examples

    def check_shapes(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """Check the names and shapes of a caller's inputs; return the number of examples."""
        if shapes.keys() != self._names:
            self._refuse_names(shapes)
        first = self.fields[0].name
        count = shapes[first][0]
        for field in self.fields:
            shape, size = shapes[field.name], field.size if field.kind in ("set", "number") else 1
            if shape[0] != count:
                raise InvalidValue(f"inputs.{field.name}.shape", shape[0], f"{count} examples, as {first} has")
            if math.prod(shape) != count * size:
                raise InvalidValue(f"inputs.{field.name}.shape", list(shape), f"[{count}, {size}]")
        if count == 0:
            raise InvalidValue("inputs", "no example", "at least one")
        return count

    @property
    def example_bytes(self) -> int:
        """How much memory an encoded example takes."""
        return self._dtype.itemsize

    def _refuse_names(self, inputs: Collection[str]) -> None:
        unknown = ", ".join(name for name in inputs if name not in self._names)
        missing = ", ".join(f.name for f in self.fields if f.name not in inputs)
        if unknown:
            raise InvalidValue("inputs", unknown, "one of " + ", ".join(f.name for f in self.fields))
        raise InvalidValue("inputs", list(inputs), f"also {missing}")

    def _check_values(self, field: FieldConfig, given: Array) -> Array:
        where = f"inputs.{field.name}"
        wide = field.kind in ("set", "number")
        size = field.size if wide else 1
        flat = given.reshape(len(given), size) if wide and size > 1 else given.reshape(len(given))
        if field.kind in KEYED:
            values: Any = flat.tolist()
            try:
                return np.array([key_of(value, self._secret) for value in values], dtype=np.int64)
            except InvalidValue as error:
                raise InvalidValue(where, error.found, error.allowed) from None
        if field.kind == "code":
            if flat.dtype.kind not in "iub":
                raise InvalidValue(f"{where}.datatype", _datatype(flat), "whole numbers for a code")
            if flat.astype(np.int64).view(np.uint64).max() >= field.size:  # negative numbers become huge
                wrong = (flat < 0) | (flat >= field.size)
                raise InvalidValue(where, int(flat[wrong][0]), f"a code from 0 to {field.size - 1}")
            return flat
        if flat.dtype.kind not in "iufb":
            raise InvalidValue(f"{where}.datatype", _datatype(flat), "numbers")
        numbers = flat
        if flat.dtype != np.float32:
            with np.errstate(over="ignore"):
                numbers = flat.astype(np.float32)
        sizes = np.abs(np.nan_to_num(numbers, posinf=np.inf, neginf=np.inf)) if field.missing else np.abs(numbers)
        if not sizes.max() <= MAX_MAGNITUDE:  # refuses NaN, too
            wrong = flat[~(sizes <= MAX_MAGNITUDE)][0]
            allowed = f"finite numbers of at most {MAX_MAGNITUDE:g} in size"
            if np.isnan(wrong):
                allowed += "; a number may be missing if its field has missing = true"
            raise InvalidValue(where, float(wrong), allowed)
        return numbers

    def sample(self) -> Array:
        """Make a few examples with varied, arbitrary values."""
        examples = np.zeros(SAMPLE_SIZE, dtype=self._dtype)
        for field in self.fields:
            number = np.arange(examples[field.name].size).reshape(examples[field.name].shape)
            sizes = {"id": examples.size, "category": examples.size, "code": field.size, "set": 2}
            examples[field.name] = number % sizes[field.kind] if field.kind in sizes else np.cos(number)
        return examples

    def to_bytes(self, examples: Array) -> list[bytes]:
        """Return the bytes of each example, for the journal."""
        raw, size = examples.tobytes(), self._dtype.itemsize
        return [raw[start : start + size] for start in range(0, len(raw), size)]

    def from_bytes(self, examples: Sequence[bytes]) -> Array:
        """Read examples that ``to_bytes`` made."""
        size = self._dtype.itemsize
        for example in examples:
            if len(example) != size:
                raise InvalidValue("features", f"{len(example)} bytes", f"{size}: the model's fields have changed")
        return np.frombuffer(b"".join(examples), dtype=self._dtype)

    def to_tensors(self, examples: Array, names: Sequence[str]) -> list[Tensor]:
        """Return the named fields, [B] or [B, size] each."""
        kinds, sizes = {f.name: f.kind for f in self.fields}, {f.name: f.size for f in self.fields}
        tensors = []
        for name in names:
            column = torch.from_numpy(np.ascontiguousarray(examples[name]).copy())
            tensors.append(column.view(len(column), sizes[name]) if kinds[name] in ("set", "number") else column)
        return tensors


def _column_type(field: FieldConfig) -> tuple[str] | tuple[str, tuple[int, ...]]:
    if field.kind in WHOLE:
        return ("<i8",)
    return ("<f4", (field.size,)) if field.size > 1 else ("<f4",)


def _datatype(array: Array) -> str:
    return "BYTES" if array.dtype == object else str(array.dtype)
