"""What an edge knows of its labels so far: how many, their mean and their variance. Never of labels to come.

They are a buffer of the model, kept for models with tallies (core.tally) and for centred ones. The output of a centred
model is counted from the labels so far, in their unit, so that no level and no scale has to be set or learned:

    regression       output = b + mean + deviation * module(...)
    classification   output = log odds + module(...)

where b is the newest known value of the label, if it is among the inputs (``last``), and 0 if not. Mean and deviation
are those of y - b; before the first label they count as 0 and 1. A batch is learned from by what was known before it,
so the first one, before which nothing was known, teaches these statistics alone.
"""

from typing import Final

import torch
from torch import Tensor

LABELS: Final = "alphaedge.labels"  # a buffer [3]: labels seen, their mean and their variance
LEVEL: Final = "alphaedge.level"  # a buffer [1], of models with a last value: what stands for it where it is missing
MEMORY: Final = 20_000.0  # labels after which older ones fade
LARGEST: Final = 10.0  # standard deviations that a label counts at most, so that one outlier is no reputation
SMALLEST_VARIANCE: Final = 1e-12


def standardise(statistics: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Labels [k, B] in deviations from the mean of all so far, these included; and the statistics [k, 3] after them."""
    seen, mean, variance = statistics.unbind(1)
    new, past = labels.shape[1], seen.clamp(max=MEMORY)
    spread, middle = torch.var_mean(labels, dim=1, correction=0)
    share, gap = new / (past + new), middle - mean
    # The batch update of Chan, Golub and LeVeque, with a bounded weight of the past.
    variance = (1 - share) * variance + share * spread + share * (1 - share) * gap * gap
    after = torch.stack([seen + new, mean + share * gap, variance], dim=1)
    return deviations(after, labels), after


def mean_so_far(mean: Tensor, statistics: Tensor, labels: Tensor) -> Tensor:
    """The mean [k, 1] of all labels so far, those [k, B] included; statistics [k, 3]: from before them."""
    past = statistics[:, :1].clamp(max=MEMORY)
    return mean + labels.shape[1] / (past + labels.shape[1]) * (labels.mean(1, keepdim=True) - mean)


def deviations(statistics: Tensor, labels: Tensor) -> Tensor:
    """Labels [k, B] in standard deviations from the mean; 0 if they do not vary."""
    _, mean, variance = statistics.unsqueeze(2).unbind(1)
    scale = torch.where(variance > SMALLEST_VARIANCE, variance.clamp(min=SMALLEST_VARIANCE).rsqrt(), 0)
    return ((labels - mean) * scale).clamp(-LARGEST, LARGEST)


def mean_and_deviation(statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Where outputs of one edge are counted from and in what unit, for numbers; the unit is 0 if they do not vary."""
    seen, mean, variance = statistics.unbind(-1)
    return mean, torch.where(seen > 0, variance.sqrt(), 1)


def log_odds(statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Where logits of one edge are counted from: the odds of a positive so far, with half an event of either kind."""
    seen, mean, _ = statistics.unbind(-1)
    events = seen.clamp(max=MEMORY)
    positive = (events * mean.clamp(0, 1) + 0.5) / (events + 1)  # a mean with noise may be neither
    return torch.logit(positive), torch.ones_like(positive)
