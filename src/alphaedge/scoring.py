"""Scores of predictions, and means over runs with their intervals.

AUC = P(prediction of a positive > prediction of a negative), where ties count half. It is undefined for one class.
1 - SMAPE with SMAPE = mean |F - A| / (|F| + |A|), where 0 / 0 counts as no error.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor


def auc(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the exact AUC of each row of [M, B]; NaN if a row has a single class or a NaN prediction.

    >>> auc(torch.tensor([[0.1, 0.9, 0.9]]), torch.tensor([[0.0, 1.0, 0.0]])).item()
    0.75
    """
    ordered = predictions.sort(dim=1).values
    below = torch.searchsorted(ordered, predictions.contiguous(), right=False)
    up_to = torch.searchsorted(ordered, predictions.contiguous(), right=True)
    rank = (below + up_to + 1).double() / 2  # the mean rank of ties
    positive = labels.double()
    positives = positive.sum(1)
    negatives = labels.shape[1] - positives
    wins = (rank * positive).sum(1) - positives * (positives + 1) / 2
    defined = (positives > 0) & (negatives > 0) & ~predictions.isnan().any(1)
    return torch.where(defined, wins / (positives * negatives), math.nan)


def one_minus_smape(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return 1 - SMAPE of each row of [M, B]."""
    size = predictions.abs() + labels.abs()
    error = torch.where(size == 0, torch.zeros_like(size), (predictions - labels).abs() / size)
    return 1 - error.double().mean(1)


def log_loss(probabilities: Tensor, labels: Tensor) -> float:
    """Return the mean negative log likelihood of binary labels."""
    p = probabilities.double().clamp(1e-12, 1 - 1e-12)
    y = labels.double()
    return float(-(y * p.log() + (1 - y) * (1 - p).log()).mean())


SCORES: Final = {"AUC": auc, "1-SMAPE": one_minus_smape}


def score_windows(metric: str, window: int | None, predictions: Tensor, labels: Tensor) -> Tensor:
    """The mean score of the windows of each row of [M, B], those without a score left out; None: a row is one window.

    >>> predictions, labels = torch.tensor([[0.1, 0.9, 0.8, 0.2]]), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    >>> score_windows("AUC", 2, predictions, labels).item(), score_windows("AUC", None, predictions, labels).item()
    (0.5, 0.75)
    """
    if window is None:
        return SCORES[metric](predictions, labels)
    parts = SCORES[metric](predictions.reshape(-1, window), labels.reshape(-1, window))
    return parts.view(len(predictions), -1).nanmean(1)


def score_at_once(metric: str, predictions: Tensor, labels: Tensor) -> float | None:
    """The score of all these events at once, whatever their shape; None if there is none."""
    if not predictions.numel():
        return None
    return as_number(SCORES[metric](predictions.reshape(1, -1), labels.reshape(1, -1))[0])


def mean_loss(task: str, predictions: Tensor, labels: Tensor) -> float | None:
    """The log loss of probabilities (task classify), or the mean squared error; None without finite predictions."""
    if not predictions.numel() or not bool(torch.isfinite(predictions).all()):
        return None
    if task == "classify":
        return log_loss(predictions, labels)
    return float((predictions.double() - labels.double()).square().mean())


def as_number(value: Tensor) -> float | None:
    """A single value; None for NaN."""
    found = float(value)
    return None if math.isnan(found) else found


# 97.5% quantiles of Student's t for 1, 2, ... degrees of freedom.
_T_QUANTILES: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
    2.0452, 2.0423,
)  # fmt: skip


def student_t(count: int) -> float:
    """Return the 97.5% quantile of Student's t for the mean of ``count`` values, at least two.

    >>> student_t(2), round(student_t(121), 2)
    (12.7062, 1.98)
    """
    freedom = count - 1
    return _T_QUANTILES[freedom - 1] if freedom <= len(_T_QUANTILES) else 1.960 + 2.4 / freedom  # error: 0.001


def interval95(values: Sequence[float]) -> float | None:
    """Return half the width of the mean's 95% interval (Student's t); None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    return student_t(n) * deviation / math.sqrt(n)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None or NaN; None if there are none."""
    kept = [v for v in values if v is not None and not math.isnan(v)]
    return sum(kept) / len(kept) if kept else None


LEVEL_MARGIN: Final = 0.001  # scores that are closer than this count as level


class Score(NamedTuple):
    """The mean of several runs, half the width of its 95% interval, and the score of each run, in order of seeds."""

    mean: float
    ci95: float | None
    runs: tuple[float | None, ...]  # None: a run without a score


def score_of_runs(runs: Sequence[float | None]) -> Score | None:
    """Summarise the scores of several runs; None if no run has one."""
    known = [s for s in runs if s is not None]
    middle = mean(known)
    return None if middle is None else Score(middle, interval95(known), tuple(runs))


def format_gain(gain: float, ci95: float | None = None) -> str:
    """Write a gain with its sign, and half the width of its 95% interval if there is one.

    >>> format_gain(0.01234, 0.0005), format_gain(-0.01)
    ('+0.0123 ± 0.0005', '-0.0100')
    """
    return f"{gain:+.4f}" + (f" ± {ci95:.4f}" if ci95 else "")
