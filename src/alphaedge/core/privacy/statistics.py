"""Running means and variances with noise, of numbers and labels whose scale nobody has to know in advance.

The first lot of an edge teaches scales and nothing else. Every number of an event falls into a bin by its sign and the
logarithm of its size; means and variances follow from those bins whose noisy counts are clear of the noise. From then
on, a number that is normalised rightly has mean 0 and mean square 1; how far the events of a lot are off both, with
noise, moves the running mean, in deviations, and the variance, by a factor.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from alphaedge.core.labels import LABELS
from alphaedge.core.privacy.clipping import shrink
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import USUAL_EVENTS, Mechanism
from alphaedge.core.privacy.noise import Noise, with_noise
from alphaedge.core.state import ModelState

FIRST_LOT_BATCHES: Final = 10
MEMORY: Final = 40  # private steps after which older ones fade
LARGEST: Final = 3.0  # deviations that a number counts at most
SMALLEST_POWER, LARGEST_POWER = -20, 40  # of two: sizes beyond count as these
BINS_PER_POWER: Final = 2
SIZES: Final = (LARGEST_POWER - SMALLEST_POWER) * BINS_PER_POWER + 1
CLEAR: Final = 6.0  # standard deviations of the noise above which a bin counts: none of a million does by chance


def start_statistics(models: ModelState, norms: Sequence[str]) -> None:
    """Let running statistics start from mean 0 and variance 1, in place. norms: the layers that have them."""
    for name in norms:
        for part, value in (("mean", 0.0), ("variance", 1.0), ("seen", 1.0)):
            models.buffers[f"{name}.{part}".lstrip(".")].fill_(value)
    if LABELS in models.buffers:
        models.buffers[LABELS][:] = models.dense.new_tensor([1.0, 0.0, 1.0])


def find_scales(
    models: ModelState, norms: Sequence[str], numbers: Sequence[Tensor], lot: Lot, mechanism: Mechanism, noise: Noise
) -> None:
    """Set means and variances of k edges by their first lots, in place.

    numbers: what each layer of ``norms`` was given, [k, L, F], and the labels [k, L, 1] last.
    """
    whole = torch.cat(list(numbers), dim=2)
    power = (whole.abs().clamp(min=2.0**SMALLEST_POWER, max=2.0**LARGEST_POWER)).log2() * BINS_PER_POWER
    size = power.nan_to_num(nan=0.0).round().long() - SMALLEST_POWER * BINS_PER_POWER
    place = torch.where(whole > 0, SIZES + 1 + size, torch.where(whole < 0, SIZES - 1 - size, SIZES))
    # A user with n events adds at most a vector of length n sqrt(F).
    events = torch.zeros(lot.users.numel(), dtype=whole.dtype, device=whole.device)
    events.index_add_(0, lot.users.flatten(), lot.counts.flatten().to(whole.dtype))
    weight = shrink(events, USUAL_EVENTS**0.5 if lot.units else 1.0)[lot.users] * lot.counts
    weight = weight.unsqueeze(2) * ~whole.isnan()
    bins = whole.new_zeros(len(whole), whole.shape[2], 2 * SIZES + 1)
    bins.scatter_add_(2, place.mT, weight.mT.contiguous())
    bins = with_noise(bins, mechanism.scale_noise, noise)
    bins = torch.where(bins > CLEAR * mechanism.scale_noise, bins, 0.0)
    sizes = 2.0 ** (torch.arange(SIZES, dtype=whole.dtype, device=whole.device) / BINS_PER_POWER + SMALLEST_POWER)
    centres = torch.cat([-sizes.flip(0), sizes.new_zeros(1), sizes])
    total = bins.sum(2)
    mean = bins @ centres / total.clamp(min=1)
    spread = (centres - mean.unsqueeze(2)).square()
    # Within a bin, values spread as well: by about a twelfth of its width squared.
    width = (centres * (2 ** (0.5 / BINS_PER_POWER) - 2 ** (-0.5 / BINS_PER_POWER))).square() / 12
    variance = (bins * (spread + width)).sum(2) / total.clamp(min=1)
    found = total > 0
    _write(models, norms, numbers, torch.where(found, mean, 0.0), torch.where(found & (variance > 0), variance, 1.0))


def move_statistics(
    models: ModelState, norms: Sequence[str], numbers: Sequence[Tensor], lot: Lot, mechanism: Mechanism, noise: Noise
) -> None:
    """Move means and variances of k edges by a lot, in place; arguments as for ``find_scales``."""
    mean, variance = _read(models, norms, numbers)
    whole = torch.cat(list(numbers), dim=2)
    normal = ((whole - mean.unsqueeze(1)) * variance.rsqrt().unsqueeze(1)).clamp(-LARGEST, LARGEST)
    off = torch.cat([normal, normal.square() - 1], dim=2).nan_to_num(nan=0.0) * lot.counts.unsqueeze(2)
    sums = off.new_zeros(lot.users.numel(), off.shape[2]).index_add_(0, lot.users.flatten(), off.flatten(0, 1))
    factors = shrink(sums.norm(dim=1), mechanism.statistics_clip)[lot.users]
    total = (off * factors.unsqueeze(2)).sum(1)
    total = with_noise(total, mechanism.statistics_noise, noise)
    by, times = (total / (MEMORY * lot.size)).chunk(2, dim=1)
    _write(models, norms, numbers, mean + by * variance.sqrt(), variance * (1 + times).clamp(0.5, 2))


def _buffers(models: ModelState, norms: Sequence[str], numbers: Sequence[Tensor]) -> Iterator[tuple[str, str, int]]:
    """For each part of ``numbers``: the buffers with its means and variances, and how many there are."""
    for name, part in zip(norms, numbers, strict=False):
        yield f"{name}.mean".lstrip("."), f"{name}.variance".lstrip("."), part.shape[2]


def _read(models: ModelState, norms: Sequence[str], numbers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Means and variances [k, F] of all numbers, and of the labels last."""
    means, variances = [], []
    for mean, variance, _ in _buffers(models, norms, numbers):
        means.append(models.buffers[mean])
        variances.append(models.buffers[variance])
    labels = models.buffers.get(LABELS)
    known = labels if labels is not None else models.dense.new_tensor([1.0, 0.0, 1.0]).expand(len(models), 3)
    return torch.cat([*means, known[:, 1:2]], dim=1), torch.cat([*variances, known[:, 2:3]], dim=1)


def _write(
    models: ModelState, norms: Sequence[str], numbers: Sequence[Tensor], means: Tensor, variances: Tensor
) -> None:
    place = 0
    for mean, variance, size in _buffers(models, norms, numbers):
        models.buffers[mean] = means[:, place : place + size].contiguous()
        models.buffers[variance] = variances[:, place : place + size].contiguous()
        place += size
    if LABELS in models.buffers:
        seen = models.buffers[LABELS][:, :1] + numbers[-1].shape[1]
        models.buffers[LABELS] = torch.cat([seen, means[:, -1:], variances[:, -1:]], dim=1)
