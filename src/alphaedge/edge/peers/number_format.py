"""Published numbers in an answer: floating point, or int8 with scales (``core.compression``).

A dense part in int8 is ``dense`` with ``scales.dense``; the rows of table T are ``rows.T`` with ``scales.T``, and their
tallies ``tallies.T`` in bfloat16. In floating point, rows and tallies lie side by side in ``rows.T``. What is unpacked
may come from anybody.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from alphaedge.core.compression import BLOCK, Codes, Precision, expand, quantise
from alphaedge.core.tally import COLUMNS
from alphaedge.errors import ModelRefused

_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_OF_ROWS: Final = ("rows", "scales", "tallies")


def pack_dense(dense: Tensor, precision: Precision) -> dict[str, Tensor]:
    """A published dense part as tensors of an answer."""
    if precision == "int8":
        made = quantise(dense, BLOCK)
        return {"dense": made.codes, "scales.dense": made.scales}
    return {"dense": dense.bfloat16() if precision == "bfloat16" else dense}


def pack_rows(table: int, rows: Tensor, width: int, precision: Precision) -> dict[str, Tensor]:
    """Published rows of an id table as tensors of an answer. width: how many numbers of a row are parameters."""
    if precision == "int8":
        made = quantise(rows[:, :width], width)
        found = {f"rows.{table}": made.codes, f"scales.{table}": made.scales.squeeze(1)}
        return found | ({f"tallies.{table}": rows[:, width:].bfloat16()} if rows.shape[1] > width else {})
    return {f"rows.{table}": rows.bfloat16() if precision == "bfloat16" else rows}


def is_of_rows(name: str) -> bool:
    """Whether a tensor of an answer has numbers of rows."""
    kind, _, table = name.partition(".")
    return kind in _OF_ROWS and table.isdecimal()


def check_names(tensors: Mapping[str, Tensor], statistics: Iterable[str], tables: int, *, rows_only: bool) -> None:
    """Refuse an answer that lacks a tensor, or has one that it may not have."""
    needed = {f"{what}.{t}" for t in range(tables) for what in ("places", "rows")}
    needed |= {f"buffer.{name}" for name in statistics} | (set() if rows_only else {"dense"})
    optional = {f"tallies.{t}" for t in range(tables) if _is_int8(tensors, f"rows.{t}")}
    needed |= {f"scales.{t}" for t in range(tables) if _is_int8(tensors, f"rows.{t}")}
    needed |= {"scales.dense"} if not rows_only and _is_int8(tensors, "dense") else set()
    wrong = (needed - set(tensors)) | (set(tensors) - needed - optional)
    if wrong:
        raise ModelRefused(f"unexpected or missing tensors: {', '.join(sorted(wrong))}")


def unpack_dense(tensors: Mapping[str, Tensor], size: int, dtype: torch.dtype) -> Tensor:
    """The dense part of an answer with the right names, of ``size`` numbers."""
    if not _is_int8(tensors, "dense"):
        return checked_floats("dense", tensors["dense"], (size,))
    dense, scales = tensors["dense"], _scales(tensors, "dense", -(-size // BLOCK))
    _check_shape("dense", dense, (size,))
    return expand(Codes(dense, scales), BLOCK, dtype)


def unpack_rows(
    tensors: Mapping[str, Tensor], table: int, *, count: int, width: int, told: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """So many rows of an id table of an answer with the right names: parameters, and tallies of 0 or more columns.

    told: the numbers of a row that this edge wants. A peer may tell its tallies or not, as its method has it.
    """
    name = f"rows.{table}"
    rows, columns = tensors[name], max(COLUMNS, told - width)
    if not _is_int8(tensors, name):
        whole = width if rows.ndim == 2 and rows.shape[1] == width else width + columns
        parameters, tallies = checked_floats(name, rows, (count, whole)).tensor_split([width], dim=1)
        return parameters, tallies
    _check_shape(name, rows, (count, width))
    parameters = expand(Codes(rows, _scales(tensors, str(table), count).unsqueeze(1)), width, dtype)
    told_name = f"tallies.{table}"
    if told_name not in tensors:
        return parameters, parameters[:, :0]
    return parameters, checked_floats(told_name, tensors[told_name], (count, columns)).to(dtype)


def checked_floats(name: str, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor as it is, if it has that shape, and is finite and in floating point."""
    _check_shape(name, tensor, shape)
    if tensor.dtype not in _FLOATS:
        raise ModelRefused(f"{name} has type {tensor.dtype}, not floating point of 2, 4 or 8 bytes")
    if not bool(torch.isfinite(tensor).all()):
        raise ModelRefused(f"{name} is not finite")
    return tensor


def _scales(tensors: Mapping[str, Tensor], of: str, count: int) -> Tensor:
    name = f"scales.{of}"
    scales = checked_floats(name, tensors[name], (count,))
    if scales.dtype != torch.bfloat16:
        raise ModelRefused(f"{name} has type {scales.dtype}, not {torch.bfloat16}")
    if bool((scales < 0).any()):
        raise ModelRefused(f"{name} has a scale below 0")
    return scales


def _is_int8(tensors: Mapping[str, Tensor], name: str) -> bool:
    return name in tensors and tensors[name].dtype == torch.int8


def _check_shape(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    if tuple(tensor.shape) != tuple(shape):
        raise ModelRefused(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
