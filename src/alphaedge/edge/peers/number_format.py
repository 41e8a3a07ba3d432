"""Published numbers in an answer: floating point, or int8 with scales (``core.compression``), deflated.

In floating point, ``rows.T`` has the tally of a row behind its parameters. In int8, ``dense`` and ``rows.T`` are bytes:
first all codes, then the scales, then the tallies, in bfloat16, of which all first bytes come before all second ones;
each such part is a block of its own in one zlib stream, since tallies and scales have much in common among themselves.
What is unpacked may come from anybody.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from alphaedge.core.compression import BLOCK, Codes, Precision, dense_bytes, dense_codes, expand, quantise, row_bytes
from alphaedge.core.tally import COLUMNS
from alphaedge.errors import ModelRefused

_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NO_BYTES: Final = torch.empty(0, dtype=torch.uint8)


def pack_dense(dense: Tensor, precision: Precision) -> Tensor:
    """A published dense part as a tensor of an answer."""
    if precision == "int8" and (made := dense_codes(dense)) is not None:
        return _deflate([made.codes, *_planes(made.scales)])
    return dense if precision == "full" else dense.bfloat16()


def pack_rows(rows: Tensor, width: int, precision: Precision) -> Tensor:
    """Published rows of an id table as a tensor of an answer. width: how many numbers of a row are parameters."""
    if precision == "int8":
        made = quantise(rows[:, :width], width)
        tallies = [plane for column in rows[:, width:].bfloat16().unbind(1) for plane in _planes(column)]
        return _deflate([made.codes.T.reshape(-1), *_planes(made.scales.squeeze(1)), *tallies])
    return rows.bfloat16() if precision == "bfloat16" else rows


def check_names(
    tensors: Mapping[str, Tensor], statistics: Iterable[str], tables: int, *, rows_only: bool, named: bool = False
) -> None:
    """Refuse an answer that lacks a tensor, or has one that it may not have. named: whether it names its keys."""
    names = {f"{what}.{t}" for t in range(tables) for what in ("keys" if named else "places", "rows")}
    names |= set() if rows_only else {"dense", *(f"buffer.{name}" for name in statistics)}
    if set(tensors) != names:
        raise ModelRefused(f"unexpected or missing tensors: {', '.join(sorted(set(tensors) ^ names))}")


def unpack_dense(dense: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """The dense part of an answer, of ``size`` numbers."""
    if dense.dtype != torch.uint8:
        return checked_floats("dense", dense, (size,))
    data = _inflate("dense", dense, [dense_bytes(size, 0, "int8")])
    scales = _checked_scales("dense", _whole(data[size:].view(2, -1)))
    return expand(Codes(data[:size].view(torch.int8), scales), BLOCK, dtype)


def unpack_rows(
    rows: Tensor, table: int, *, count: int, width: int, told: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """So many rows of an id table of an answer: parameters, and tallies of 0 or more columns.

    told: the numbers of a row that this edge wants. A peer may tell its tallies or not, as its method has it.
    """
    name, columns = f"rows.{table}", max(COLUMNS, told - width)
    if rows.dtype != torch.uint8 or not width:  # tallies alone are not quantised
        whole = width if rows.ndim == 2 and rows.shape[1] == width else width + columns
        parameters, tallies = checked_floats(name, rows, (count, whole)).tensor_split([width], dim=1)
        return parameters, tallies
    allowed = [count * row_bytes(width, numbers, 0, "int8") for numbers in (width, width + columns)]
    data = _inflate(name, rows, allowed)
    if not count:
        return torch.empty(0, width, dtype=dtype), torch.empty(0, columns, dtype=dtype)
    codes, halves = data[: count * width], data[count * width :].view(-1, 2, count)
    scales = _checked_scales(name, _whole(halves[0]))
    parameters = expand(Codes(codes.view(torch.int8).view(width, count).T, scales.unsqueeze(1)), width, dtype)
    tallies = torch.stack([_whole(some) for some in halves[1:]], dim=1) if len(halves) > 1 else parameters[:, :0]
    return parameters, checked_floats(name, tallies, tallies.shape).to(dtype)


def checked_floats(name: str, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor as it is, if it has that shape, and is finite and in floating point."""
    if tuple(tensor.shape) != tuple(shape):
        raise ModelRefused(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
    if tensor.dtype not in _FLOATS:
        raise ModelRefused(f"{name} has type {tensor.dtype}, not floating point of 2, 4 or 8 bytes")
    if not bool(torch.isfinite(tensor).all()):
        raise ModelRefused(f"{name} is not finite")
    return tensor


def _checked_scales(name: str, scales: Tensor) -> Tensor:
    if not bool(torch.isfinite(scales).all()) or bool((scales < 0).any()):
        raise ModelRefused(f"{name} has a scale that is not finite, or below 0")
    return scales


def _planes(numbers: Tensor) -> list[Tensor]:
    """The first bytes of bfloat16 numbers [N], and their second bytes."""
    data = numbers.view(torch.int16).numpy().tobytes()
    return [torch.frombuffer(bytearray(data[place::2]), dtype=torch.uint8) if data else _NO_BYTES for place in (0, 1)]


def _whole(planes: Tensor) -> Tensor:
    """Numbers [N] from their bytes [2, N]."""
    both = np.ascontiguousarray(planes.numpy().T).reshape(-1)
    return torch.from_numpy(both).view(torch.bfloat16)


def _deflate(parts: Sequence[Tensor]) -> Tensor:
    deflate = zlib.compressobj()
    made = b"".join(
        deflate.compress(part.contiguous().numpy().tobytes()) + deflate.flush(zlib.Z_BLOCK) for part in parts
    )
    return torch.from_numpy(np.frombuffer(made + deflate.flush(), np.uint8).copy())


def _inflate(name: str, data: Tensor, sizes: Sequence[int]) -> Tensor:
    """Inflate what may have one of some sizes, and never make more than the largest of them."""
    if data.ndim != 1:
        raise ModelRefused(f"{name} has shape {tuple(data.shape)}, not that of a stream of bytes")
    inflate = zlib.decompressobj()
    try:
        made = inflate.decompress(data.numpy().tobytes(), max(sizes) + 1)
    except zlib.error as error:
        raise ModelRefused(f"{name} can't be inflated ({error})") from None
    if len(made) not in sizes or not inflate.eof or inflate.unused_data:
        allowed = " or ".join(map(str, sorted(set(sizes))))
        raise ModelRefused(f"{name} is not a stream of {allowed} bytes")
    return torch.from_numpy(np.frombuffer(made, np.uint8).copy())
