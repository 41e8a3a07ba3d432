"""From right guesses to a lower bound of epsilon (Steinke, Nasr, Jagielski, NeurIPS 2023, arXiv 2305.08846).

m canaries are put in or left out by fair coins, all in one run. The auditor guesses r of the coins and abstains on the
others. If the run is (epsilon, delta)-private, then the number of right guesses is hardly larger than a binomial one
with q = 1 / (1 + exp(-epsilon)), which is what randomised response reaches (their theorem 5.2; appendix D):

    P[right >= v] <= P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i,       B ~ Binomial(r, q)

The epsilon for which this falls to 5% is refuted with 95% confidence, and so is every smaller one. If all of r guesses
are right, that is about ln(r / 3): more can't be shown by r canaries, whatever is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.errors import InvalidValue, check_number

CONFIDENCE: Final = 0.95
SHARES: Final = (0.1, 0.4, 0.8)  # of the canaries: how many are guessed; fixed before anything is seen
LARGEST: Final = 64.0  # an epsilon beyond this is not looked for
MOST_ABSTENTION: Final = 20  # canaries of which one of either kind is guessed
SHUFFLE: Final = 8_046_153  # the seed by which equal scores are ordered; no coin is drawn by it
ROUNDS: Final = 40  # of bisection


def _binomial(n: int, q: float) -> list[float]:
    """The probabilities of 0 .. n successes."""
    if q in (0.0, 1.0):
        return [float(k == n * q) for k in range(n + 1)]
    whole = lgamma(n + 1)
    logs = (whole - lgamma(k + 1) - lgamma(n - k + 1) + k * log(q) + (n - k) * log1p(-q) for k in range(n + 1))
    return [exp(one) for one in logs]


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At most how likely so many right guesses are if the run is (epsilon, delta)-private.

    >>> round(p_value(1, 1, 1, 0.0, 0.0), 3), round(p_value(2, 2, 2, 0.0, 0.0), 3)
    (0.5, 0.25)
    """
    chances = _binomial(guesses, 1 / (1 + exp(-epsilon)))
    steepest = below = 0.0
    for i in range(1, right + 1):
        below += chances[right - i]
        steepest = max(steepest, below / i)
    return min(1.0, sum(chances[right:]) + 2 * canaries * delta * steepest)


@lru_cache(maxsize=4096)
def lower_bound(canaries: int, guesses: int, right: int, delta: float, level: float = 1 - CONFIDENCE) -> float:
    """The largest epsilon that so many right guesses refute, at a confidence of 1 - level; 0 if they refute none.

    >>> round(lower_bound(200, 200, 200, 0.0), 2)
    4.19
    """
    check_number("canaries", canaries, low=1, whole=True)
    if not 0 <= right <= guesses <= canaries:
        raise InvalidValue("right guesses", right, f"from 0 to {guesses} guesses, of {canaries} canaries")
    low, high = 0.0, LARGEST
    if p_value(canaries, guesses, right, low, delta) >= level:
        return 0.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        refuted = p_value(canaries, guesses, right, middle, delta) < level
        low, high = (middle, high) if refuted else (low, middle)
    return low


@final
@dataclass(frozen=True)
class Guesses:
    """How well an auditor has guessed, and what that shows.

    canaries, guesses, right: how many. epsilon: the lower bound at 95%. most: what so many canaries could have shown.
    """

    canaries: int
    guesses: int
    right: int
    epsilon: float
    most: float


def guess(ways: Sequence[Tensor], coins: Tensor, delta: float) -> Guesses:
    """Guess that the canaries of the highest scores were in and those of the lowest out, and judge the guesses.

    ways: of scoring, each [m]. coins: [m]. Every way is tried with several shares of the canaries, each at its part of
    the 5%, and the best counts. Equal scores go by chance: their order must not tell their coins.
    """
    check_number("canaries", len(coins), low=MOST_ABSTENTION, whole=True)
    m, found = len(coins), []
    shuffled = torch.randperm(m, generator=torch.Generator().manual_seed(SHUFFLE))
    level = (1 - CONFIDENCE) / (len(SHARES) * len(ways))
    most = max(lower_bound(m, 2 * int(s * m / 2), 2 * int(s * m / 2), delta, level) for s in SHARES)
    for scores in ways:
        order = shuffled[torch.argsort(scores.double()[shuffled], stable=True)]
        for share in SHARES:
            each = int(share * m / 2)
            right = int((~coins[order[:each]]).sum() + coins[order[m - each :]].sum())
            found.append(Guesses(m, 2 * each, right, lower_bound(m, 2 * each, right, delta, level), most))
    return max(found, key=lambda one: (one.epsilon, one.right / one.guesses))
