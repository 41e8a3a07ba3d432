"""The checks that a peer's answer must pass before its model is used.

An answer is refused, with a reason, if it has another schema, other shapes or types, numbers that are not finite or
implausibly large, if it is older than the publication that is held, or has rows that were not asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.edge.learning.id_tables import fit_columns
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.key_lists import KeyList, declared_count, unpack_keys, unpack_places
from alphaedge.edge.peers.number_format import check_names, checked_floats, unpack_dense, unpack_rows
from alphaedge.edge.peers.wire import unpack_answer
from alphaedge.errors import KeyListError, ModelOutdated, ModelRefused

# How many times larger than this edge's parameters a peer's may be, by their root mean square.
MAX_SIZE_RATIO: Final = 100.0
# The largest running statistic. They have the units of users' numbers, so an edge that is new has nothing to compare.
MAX_STATISTIC: Final = 1e9


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
            refused = ModelOutdated if 1 <= about.number < self.holds else ModelRefused
            raise refused(f"publication {about.number} with {about.records} records; {self.holds} is already held")
        named, what = self.listed is None, "keys" if self.listed is None else "places"
        check_names(tensors, self.statistics, len(self.rows), rows_only=self.rows_only, named=named)
        keys = tuple(self._keys(t, tensors[f"{what}.{t}"]) for t in range(len(self.rows)))
        rows = tuple(self._rows(tensors, t, len(found)) for t, found in enumerate(keys))
        return PulledModel(
            about.number,
            about.records,
            self.dense[:0] if self.rows_only else self._dense(tensors),
            {} if self.rows_only else {n: self._statistic(tensors, n, own) for n, own in self.statistics.items()},
            keys,
            rows,
            sum(tensors[f"rows.{t}"].nbytes for t in range(len(self.rows))),
        )

    def _dense(self, tensors: Mapping[str, Tensor]) -> Tensor:
        kind = self.dense.dtype
        found = unpack_dense(tensors["dense"], len(self.dense), kind)
        _check_size("dense", found, rms(self.dense))
        return found.to(kind)

    def _rows(self, tensors: Mapping[str, Tensor], table: int, count: int) -> Tensor:
        own, kind = self.rows[table], self.dense.dtype
        width, told = own.shape[1], self.told[table]
        found = tensors[f"rows.{table}"]
        rows, tallies = unpack_rows(found, table, count=count, width=width, told=told, dtype=kind)
        tallies = fit_columns(_checked_tallies(table, tallies), told - width)
        _check_size(f"rows.{table}", rows, max(rms(own), rms(self.dense)))
        return torch.cat([rows, tallies], dim=1).to(kind)

    def _statistic(self, tensors: Mapping[str, Tensor], name: str, own: Tensor) -> Tensor:
        found = checked_floats(f"buffer.{name}", tensors[f"buffer.{name}"], own.shape).to(own.dtype)
        _check_statistic(name, found, own)
        return found

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
