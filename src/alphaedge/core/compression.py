"""How numbers are published: in fewer bytes than they are trained in, and rows only when they have moved.

A publisher compresses its numbers when it publishes them, not on their way, so everybody who holds a publication holds
the same. Nothing here knows where the numbers come from; each function depends on its arguments alone.

- ``full``: as they are.
- ``bfloat16``: half the bytes with three digits, which no score has noticed (docs/decisions/0018).
- ``int8``: a whole number q from -127 to 127 for each number, and a scale s for each row of an id table and each
  ``BLOCK`` numbers of the dense part; s q is published. Tallies are counts that grow, so they stay in bfloat16, and so
  does a dense part whose numbers differ so much in size that most of a block would be lost.

With int8 there is **error feedback**: what rounding leaves out is kept by the publisher, as a residual, and added at
the next publication of the same number. So what was published and the residual add up to the true numbers:

    p_k = Q(x_k + r_{k-1}),    r_k = x_k + r_{k-1} - p_k,    sum_k p_k + r_K = sum_k x_k

and a mean over publications, which is what mixing takes, has no bias. Running statistics have the units of users'
numbers and are published as they are.
"""

from typing import Final, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.tally import COLUMNS

Precision = Literal["int8", "bfloat16", "full"]
PRECISIONS: Final = ("int8", "bfloat16", "full")
BLOCK: Final = 64  # numbers of the dense part with one scale
MOST_LOST: Final = 0.5  # of a block of the dense part
LARGEST: Final = 127  # of an int8; -128 is not used
SMALLEST_SCALE: Final = 2.0**-126  # smaller ones have fewer digits; such rows are published as 0
_BFLOAT16_BYTES: Final = 2


@final
class Compressed(NamedTuple):
    """Numbers as they are published, and what rounding left out of them: of no columns if nothing is kept."""

    published: Tensor
    residual: Tensor


@final
class Codes(NamedTuple):
    """Numbers [..., N] as int8, and the scales of their blocks [..., blocks] as bfloat16."""

    codes: Tensor
    scales: Tensor


def compress_dense(numbers: Tensor, residual: Tensor, precision: Precision) -> Compressed:
    """Publish dense parts [..., D]. residual [..., D]: of the publication before; [..., 0] if there is none.

    A dense part of which int8 would leave nothing of most numbers of a block, since one of them is so much larger, is
    published in bfloat16.
    """
    if precision != "int8":
        return Compressed(_rounded(numbers, precision), numbers[..., :0])
    wanted = numbers + residual if residual.shape[-1] else numbers
    made = quantise(wanted, BLOCK)
    found = _with_residual(wanted, expand(made, BLOCK, numbers.dtype))
    uneven = _is_uneven(wanted, made.codes)
    if not bool(uneven.any()):
        return found
    rounded = _rounded(numbers, "bfloat16")
    return Compressed(torch.where(uneven, rounded, found.published), torch.where(uneven, 0, found.residual))


def dense_codes(dense: Tensor) -> Codes | None:
    """The codes of a dense part [D] that was published in int8; None if it was published in bfloat16."""
    made = quantise(dense, BLOCK)
    return made if torch.equal(expand(made, BLOCK, dense.dtype), dense) else None


def _is_uneven(numbers: Tensor, codes: Tensor) -> Tensor:
    """Whether most numbers of a block, those that are 0 aside, have the code 0: [..., 1] for each dense part."""
    there = _in_blocks((numbers != 0).to(torch.float32), BLOCK)
    lost = there * (_in_blocks(codes, BLOCK) == 0)
    return (lost.sum(-1) > MOST_LOST * there.sum(-1)).any(-1, keepdim=True)


def compress_rows(rows: Tensor, residual: Tensor, width: int, precision: Precision) -> Compressed:
    """Publish rows [C, told] of an id table, of which ``width`` numbers are parameters and the others the tally.

    residual [C, width]: of the last publication of each row, 0 if there is none; [C, 0] if no row has one.
    """
    if precision != "int8":
        return Compressed(_rounded(rows, precision), rows[:, :0])
    parameters, tallies = rows.tensor_split([width], dim=1)
    wanted = parameters + residual if residual.shape[1] else parameters
    published, left = _with_residual(wanted, expand(quantise(wanted, width), width, rows.dtype))
    return Compressed(torch.cat([published, _rounded(tallies, "bfloat16")], dim=1), left)


def residual_columns(width: int, precision: Precision) -> int:
    """How many numbers of a residual are kept for so many numbers."""
    return width if precision == "int8" else 0


def has_moved(rows: Tensor, published: Tensor, width: int, min_change: float) -> Tensor:
    """Which rows [C, told] differ from what was last published of them by more than a fraction, [C]: in the length of
    the difference of their parameters over that of the published ones, or in the events of their tally.
    """
    if not min_change:
        return torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    before = published[:, :width]
    moved: Tensor = (rows[:, :width] - before).norm(dim=1) > min_change * before.norm(dim=1)
    if rows.shape[1] > width:
        moved |= (rows[:, width] - published[:, width]).abs() > min_change * published[:, width].abs()
    return moved


def dense_bytes(numbers: int, number_bytes: int, precision: Precision) -> int:
    """Bytes of a dense part on its way. number_bytes: of one number that is trained."""
    if precision == "int8":
        return numbers + _BFLOAT16_BYTES * _blocks(numbers, BLOCK)
    return numbers * (_BFLOAT16_BYTES if precision == "bfloat16" else number_bytes)


def row_bytes(width: int, told: int, number_bytes: int, precision: Precision) -> int:
    """Bytes of a row on its way: of ``told`` numbers, ``width`` of them parameters."""
    if precision == "int8":
        return width + _BFLOAT16_BYTES * (1 + told - width)
    return told * (_BFLOAT16_BYTES if precision == "bfloat16" else number_bytes)


def tally_bytes(number_bytes: int, precision: Precision) -> int:
    """Bytes of a tally on its way without its row."""
    return COLUMNS * (number_bytes if precision == "full" else _BFLOAT16_BYTES)


def quantise(numbers: Tensor, block: int) -> Codes:
    """Numbers [..., N] as int8 with a scale for each block of so many.

    The largest number of a block always gets the code 127 or -127, also when the scale is rounded to bfloat16. So what
    was published gives the same codes and scales again: a sender need not keep them.
    """
    blocks = _in_blocks(numbers, block)
    scales = (blocks.abs().amax(-1) / LARGEST).bfloat16()
    scales = torch.where(scales < SMALLEST_SCALE, 0, scales)
    divisor = torch.where(scales == 0, 1, scales).to(numbers.dtype).unsqueeze(-1)
    codes = (blocks / divisor).round().clamp(-LARGEST, LARGEST).nan_to_num(nan=0.0).to(torch.int8)
    return Codes(codes.flatten(-2)[..., : numbers.shape[-1]], scales)


def expand(made: Codes, block: int, dtype: torch.dtype) -> Tensor:
    """The numbers that codes stand for."""
    blocks = _in_blocks(made.codes.to(dtype), block) * made.scales.to(dtype).unsqueeze(-1)
    return blocks.flatten(-2)[..., : made.codes.shape[-1]]


def _rounded(numbers: Tensor, precision: Precision) -> Tensor:
    return numbers.bfloat16().to(numbers.dtype) if precision == "bfloat16" else numbers


def _with_residual(wanted: Tensor, published: Tensor) -> Compressed:
    left = wanted - published
    return Compressed(published, torch.where(left.isfinite(), left, 0))  # what is not finite is no reason to stay so


def _blocks(numbers: int, block: int) -> int:
    return -(-numbers // block)


def _in_blocks(numbers: Tensor, block: int) -> Tensor:
    """Numbers [..., N] as [..., blocks, block], with zeros behind the last."""
    size = numbers.shape[-1]
    count = _blocks(size, block)
    return F.pad(numbers, (0, count * block - size)).view(*numbers.shape[:-1], count, block)
