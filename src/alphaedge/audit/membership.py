"""Membership inference: was an event among those that an edge has learned from? Two attacks on what it publishes.

- **Loss threshold** (Yeom et al., CSF 2018): an event with a small loss was probably learned from.
- **LiRA** (Carlini et al., S&P 2022): shadow runs with and without the event tell what the model's confidence in its
  label looks like in either case, as two normal distributions; the likelihood ratio decides. With few shadow runs all
  events share their variances.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.scoring import Score, auc, score_of_runs

FALSE_POSITIVES: Final = 0.01
NORMAL: Final = 1.96  # the 97.5% quantile of the normal distribution
FEWEST: Final = 10  # events of either kind, to judge a run


@final
@dataclass(frozen=True)
class Attack:
    """How well an attack tells events that were learned from: 0.5 and 0.01 are chance. Means over runs as the target.

    auc: the area under the curve. caught: the share of members found at 1% false positives. Both with half the width of
    their 95% interval, over runs. A single run has one of the area alone, over its events (DeLong et al., 1988).
    """

    auc: float
    auc_ci95: float | None
    caught: float
    caught_ci95: float | None


def share_caught(scores: Tensor, members: Tensor) -> float:
    """The share of members above all but 1% of the others."""
    others = scores[~members].sort(descending=True).values
    threshold = others[int(FALSE_POSITIVES * len(others))]
    return float((scores[members] > threshold).double().mean())


def auc_interval95(scores: Tensor, members: Tensor) -> float:
    """Half the width of the 95% interval of the area under the curve of one run, from the spread of its events.

    Var = var(P[it > others]) / members + var(P[members > it]) / others, each over events (DeLong et al., 1988).
    """
    variance = torch.zeros((), dtype=torch.float64)
    for own, against in ((scores[members], scores[~members]), (scores[~members], scores[members])):
        ordered = against.sort().values
        below, up_to = (torch.searchsorted(ordered, own.contiguous(), right=right) for right in (False, True))
        placed = (below + up_to).double() / (2 * len(against))
        variance += placed.var() / len(own)
    return NORMAL * float(variance.sqrt())


def loss_threshold(losses: Tensor, members: Tensor) -> Attack | None:
    """Attack every run by its losses [k, N]. members: [k, N], whom each has learned from."""
    return _judged([(-loss, those) for loss, those in zip(losses, members, strict=True)])


def lira(confidences: Tensor, members: Tensor) -> Attack | None:
    """Attack every run by its confidences [k, N], with all others as shadow runs. members: [k, N], as above."""
    found = []
    for target in range(len(confidences)):
        others = torch.arange(len(confidences)) != target
        x, inside = confidences[others].double(), members[others]
        usable = inside.any(0) & ~inside.all(0)
        means, spreads = [], []
        for part in (inside, ~inside):
            count = part.sum(0).clamp(min=1)
            mean = torch.where(part, x, 0).sum(0) / count
            left = (torch.where(part, x - mean, 0).square().sum(0))[usable].sum()
            freedom = (count - 1)[usable].sum().clamp(min=1)
            means.append(mean)
            spreads.append((left / freedom).clamp(min=1e-12))
        own = confidences[target].double()
        ratio = [-(own - m).square() / (2 * s) - s.log() / 2 for m, s in zip(means, spreads, strict=True)]
        found.append(((ratio[0] - ratio[1])[usable], members[target][usable]))
    return _judged(found)


def _judged(runs: list[tuple[Tensor, Tensor]]) -> Attack | None:
    """What scores of events are worth, over several runs; None if no run has enough events of both kinds."""
    kept = [(s, m) for s, m in runs if int(m.sum()) >= FEWEST and int((~m).sum()) >= FEWEST]
    area = score_of_runs([float(auc(s.unsqueeze(0), m.unsqueeze(0).to(s.dtype))) for s, m in kept])
    caught = score_of_runs([share_caught(s, m) for s, m in kept])
    if area is None or caught is None:
        return None
    found = _attack(area, caught)
    return found if len(kept) > 1 else replace(found, auc_ci95=auc_interval95(*kept[0]))


def _attack(area: Score, caught: Score) -> Attack:
    return Attack(area.mean, area.ci95, caught.mean, caught.ci95)
