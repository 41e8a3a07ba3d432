"""From a promise (epsilon, delta) to the noise that keeps it, and back.

Every private step adds Gaussian noise to a sum to which one user adds at most length 1 (after scaling). A mechanism of
noise sigma is mu-Gaussian-private with mu = 1 / sigma; T of them in a row, each seeing what the ones before have told,
are so with mu = sqrt(T) / sigma, exactly (Dong, Roth, Su, "Gaussian Differential Privacy", JRSS B 2022). A stream is no
random sample, so nothing is gained by sampling. The curve from mu to (epsilon, delta) is Opacus's.
"""

from functools import cache
from math import inf, sqrt
from statistics import NormalDist
from typing import Any, Final

from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.settings import Privacy
from alphaedge.errors import InvalidValue

NOISE_DELTA: Final = 0.5  # of delta: for noise; the rest is for rows that pass the threshold by chance
ROUNDS: Final = 100  # of bisection
OPACUS_LIMIT: Final = 500.0  # an epsilon beyond this is not looked for


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon that a mu-Gaussian-private release has at this delta."""
    try:
        from opacus.accountants.analysis import gdp
    except ModuleNotFoundError:
        raise InvalidValue(
            "privacy", "no Opacus", 'Opacus for the accounting: pip install "alphaedge[privacy]"'
        ) from None
    if gdp.delta_eps_mu(eps=0.0, mu=mu) <= delta:
        return 0.0
    if gdp.delta_eps_mu(eps=OPACUS_LIMIT, mu=mu) >= delta:
        return inf
    return float(gdp.eps_from_mu(mu=mu, delta=delta))


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that keeps (epsilon, delta); a little below, never above.

    >>> round(epsilon_of(mu_of(8.0, 1e-6), 1e-6), 6)
    8.0
    """
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) < epsilon:
        low, high = high, 2 * high
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if middle > 0 and epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


@cache
def noise_multiplier(privacy: Privacy) -> float:
    """The noise of a private step, in lengths of what one user adds."""
    return sqrt(privacy.participations) / mu_of(privacy.epsilon, NOISE_DELTA * privacy.delta)


@cache
def epsilon_after(privacy: Privacy, windows: int) -> float:
    """What a user who takes part in so many windows has spent, at ``windows`` times delta.

    >>> epsilon_after(Privacy(epsilon=1.0), 1) <= 1.0
    True
    """
    if not windows:
        return 0.0
    mu = sqrt(windows * privacy.participations) / noise_multiplier(privacy)
    return epsilon_of(mu, NOISE_DELTA * privacy.delta)


@cache
def windows_allowed(privacy: Privacy) -> int | None:
    """In how many windows there may be private steps before ``total_epsilon`` is spent; None for no limit.

    >>> windows_allowed(Privacy(epsilon=1.0, total_epsilon=1.0)), windows_allowed(Privacy())
    (1, None)
    """
    if privacy.total_epsilon is None:
        return None
    most = 1  # total_epsilon is no less than epsilon
    while epsilon_after(privacy, 2 * most) <= privacy.total_epsilon:
        most *= 2
    low, high = most, 2 * most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_after(privacy, middle) <= privacy.total_epsilon else (low, middle)
    return low


def may_open(privacy: Privacy, ledger: Ledger[Any], window: int) -> bool:
    """Whether there may be a private step in a window: one that is open, or a new one within the budget of all."""
    allowed = windows_allowed(privacy)
    return window <= ledger.window or allowed is None or ledger.windows < allowed


def row_threshold(steps: int, *, noise: float, most: float, rows: int, delta: float) -> float:
    """The noisy count from which on a row may be told, after noise went over it so often.

    If one user alone has named a row, in one window, then whether it passes shows that user. It does with a probability
    of at most ``delta``, over all rows of the user and all times to come: the n-th time may err with
    delta / (rows n (n + 1)).
    (Thresholds on noisy counts are from Korolova et al., WWW 2009; Gaussian ones from Gopi et al., ICML 2020.)

    noise: of the count, each time. most: what one user adds to it in a window.
    """
    tail = delta / (rows * steps * (steps + 1))
    return most + noise * sqrt(steps) * -NormalDist().inv_cdf(tail)
