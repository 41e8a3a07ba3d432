"""The checks that a peer's answer must pass before its model is used.

An answer is refused, with a reason, if it has another schema, other shapes or types, numbers that are not finite or
implausibly large, if it is older than the publication that is held, or has rows that were not asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.id_tables import fit_columns
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.key_lists import KeyList, declared_count, unpack_keys, unpack_places
from alphaedge.edge.peers.wire import unpack_answer
from alphaedge.errors import KeyListError, ModelRefused

# How many times larger than this edge's parameters a peer's may be, by their root mean square.
MAX_SIZE_RATIO: Final = 100.0
# The largest running statistic. They have the units of users' numbers, so an edge that is new has nothing to compare.
MAX_STATISTIC: Final = 1e9


DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@final
@dataclass(frozen=True)
class ExpectedAnswer:
    """What an answer must look like: schema, shapes and sizes of the edge's own model, and what was asked for."""

    schema: str
    dense: Tensor
    statistics: Mapping[str, Tensor]
    rows: Sequence[Tensor]  # the parameters of the edge's own rows, per id table
    told: Sequence[int]  # numbers of a row that are wanted: the parameters, and the tally if it is
    holds: int  # number of the publication that the edge holds
    listed: KeyList | None  # the key list of the request; None if it asked for everything
    rows_only: bool = False  # rows without the dense part
    most: int = 0  # rows of a table, if it asked for everything

    def check(self, data: bytes) -> PulledModel:
        """Decode an answer; ``ModelRefused`` if it is not acceptable."""
        about, tensors = unpack_answer(data)
        if about.schema != self.schema:
            raise ModelRefused(f"schema {about.schema} does not mix with this edge's schema {self.schema}")
        if about.number < max(1, self.holds) or about.records < 0:
            raise ModelRefused(f"publication {about.number} with {about.records} records; {self.holds} is already held")
        tables = range(len(self.rows))
        shapes = {"dense": self.dense.shape, **{f"buffer.{n}": b.shape for n, b in self.statistics.items()}}
        shapes = {} if self.rows_only else shapes
        names = set(shapes)
        named = "places" if self.listed is not None else "keys"
        names |= {f"{what}.{t}" for t in tables for what in (named, "rows")}
        if set(tensors) != names:
            raise ModelRefused(f"unexpected or missing tensors: {', '.join(sorted(set(tensors) ^ names))}")
        keys = [self._keys(t, tensors[f"{named}.{t}"]) for t in tables]
        for t in tables:
            shapes[f"rows.{t}"] = torch.Size([len(keys[t]), self._numbers(t, tensors[f"rows.{t}"])])
        own = {"dense": rms(self.dense), **{f"rows.{t}": max(rms(self.rows[t]), rms(self.dense)) for t in tables}}
        for name, shape in shapes.items():
            _check_numbers(name, tensors[name], shape)
        for t in tables:
            tensors[f"rows.{t}"], tallies = tensors[f"rows.{t}"].tensor_split([self.rows[t].shape[1]], dim=1)
            tensors[f"tallies.{t}"] = fit_columns(_checked_tallies(t, tallies), self.told[t] - self.rows[t].shape[1])
        for name, size in own.items():
            if name in shapes:
                _check_size(name, tensors[name], size)
        for name, own_buffer in self.statistics.items():
            if f"buffer.{name}" in shapes:
                _check_statistic(name, tensors[f"buffer.{name}"].to(own_buffer.dtype), own_buffer)
        kind = self.dense.dtype
        return PulledModel(
            about.number,
            about.records,
            tensors["dense"].to(kind) if "dense" in shapes else self.dense[:0],
            {n: tensors[f"buffer.{n}"].to(b.dtype) for n, b in self.statistics.items() if f"buffer.{n}" in shapes},
            tuple(keys),
            tuple(torch.cat([tensors[f"rows.{t}"], tensors[f"tallies.{t}"]], dim=1).to(kind) for t in tables),
            sum(tensors[f"{what}.{t}"].nbytes for t in tables for what in ("rows", "tallies")),
        )

    def _numbers(self, table: int, rows: Tensor) -> int:
        """How many numbers the rows of an answer may have: a peer may tell its tallies or not, as its method has it."""
        plain = self.rows[table].shape[1]
        return plain if rows.ndim == 2 and rows.shape[1] == plain else max(plain + COLUMNS, self.told[table])

    def _keys(self, table: int, told: Tensor) -> Tensor:
        """The keys of an answer's rows: by their places in the list of the request, or as the answer names them."""
        try:
            return self._named(told) if self.listed is None else unpack_places(self.listed.keys[table], told)
        except KeyListError as error:
            raise ModelRefused(f"keys of rows.{table}: {error}") from None

    def _named(self, packed: Tensor) -> Tensor:
        data = packed.numpy().tobytes() if packed.dtype == torch.uint8 and packed.ndim == 1 else b""
        if declared_count(data) > self.most:
            raise KeyListError(f"{declared_count(data)} rows; allowed: at most {self.most}")
        return unpack_keys(data)


def _check_numbers(name: str, tensor: Tensor, shape: torch.Size) -> None:
    if tensor.shape != shape:
        raise ModelRefused(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
    if tensor.dtype not in DTYPES:
        raise ModelRefused(f"{name} has type {tensor.dtype}, not floating point of 2, 4 or 8 bytes")
    if not bool(torch.isfinite(tensor).all()):
        raise ModelRefused(f"{name} is not finite")


def _checked_tallies(table: int, tallies: Tensor) -> Tensor:
    """Tallies as they are, if they can be: no fewer than 0 events. Their sums are cut when they are heard."""
    if tallies.shape[1] and bool((tallies[:, 0] < 0).any()):
        raise ModelRefused(f"rows.{table} has a tally of fewer than 0 events")
    return tallies


def _check_size(name: str, tensor: Tensor, own: float) -> None:
    ratio = rms(tensor) / max(own, 1e-3)
    if ratio > MAX_SIZE_RATIO:
        raise ModelRefused(f"{name} is {ratio:.0f} times as large as this edge's; allowed: {MAX_SIZE_RATIO:.0f} times")


def _check_statistic(name: str, theirs: Tensor, own: Tensor) -> None:
    if not bool(torch.isfinite(theirs).all()):
        raise ModelRefused(f"buffer.{name} has numbers that {own.dtype} can't hold")
    largest = float(theirs.double().abs().max()) if theirs.numel() else 0.0
    allowed = max(MAX_STATISTIC, MAX_SIZE_RATIO * (float(own.double().abs().max()) if own.numel() else 0.0))
    if largest > allowed:
        raise ModelRefused(f"buffer.{name} is {largest:.3g} at its largest; allowed: at most {allowed:.3g}")


def rms(tensor: Tensor) -> float:
    """The root mean square of a tensor."""
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0
