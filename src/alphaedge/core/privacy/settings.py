"""What an edge promises about its users: an (epsilon, delta) for each window of time.

The promise is differential privacy of everything that peers see in a window: with or without what one user (or one
event) contributed to it, any set of outcomes S has probabilities p and q with

    p <= exp(epsilon) q + delta        (Dwork, McSherry, Nissim, Smith, 2006)

"Without" means that the user's events keep their place in the stream but count for nothing (zero-out adjacency;
Kairouz et al., "Practical and Private (Deep) Learning without Sampling or Shuffling", ICML 2021). So how many events an
edge has had, and when, is not covered.
"""

from dataclasses import dataclass
from typing import Final, final

from alphaedge.errors import InvalidValue, check_number

DAY_SECONDS: Final = 86_400.0
LARGEST_EPSILON: Final = 100.0  # more is no promise
LARGEST_DELTA: Final = 0.01


@final
@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Settings of private publication.

    epsilon, delta: the promise for each window. window_seconds: its length; in a simulation, in the unit of its times.
    user: the field with the ids of users, who are protected with all that they contribute in a window; None protects
        each event on its own.
    participations: private steps of a window in which a user counts; what more the user does trains the edge's own
        model alone. An event counts once anyway.
    clip: the longest gradient of one user (or event). rate: of the Adam that moves the released model.
    tables: fields whose ids may be told, with what was counted of them, as far as enough users stand behind each. No
        other id ever leaves, and parameters of no row.
    lot_batches: batches per private step. More give less noise for each event, and fewer steps.
    tally_batches: batches for which the counts of ids wait until noise goes over them. More give less noise and older
        counts.
    total_epsilon: what may be spent over all windows on a user who takes part in each; the edge publishes nothing new
        afterwards. None is no limit.
    """

    epsilon: float = 8.0
    delta: float = 1e-6
    window_seconds: float = DAY_SECONDS
    user: str | None = None
    participations: int = 1
    clip: float = 1.0
    rate: float = 0.01
    tables: tuple[str, ...] = ()
    lot_batches: int = 1
    tally_batches: int = 100
    total_epsilon: float | None = None

    def __post_init__(self) -> None:
        check_number("privacy.epsilon", self.epsilon, above=0, high=LARGEST_EPSILON)
        check_number("privacy.delta", self.delta, above=0, high=LARGEST_DELTA)
        check_number("privacy.window_seconds", self.window_seconds, above=0)
        check_number("privacy.participations", self.participations, low=1, whole=True)
        check_number("privacy.clip", self.clip, above=0)
        check_number("privacy.rate", self.rate, above=0)
        check_number("privacy.lot_batches", self.lot_batches, low=1, whole=True)
        check_number("privacy.tally_batches", self.tally_batches, low=1, whole=True)
        if self.total_epsilon is not None:
            check_number("privacy.total_epsilon", self.total_epsilon, low=self.epsilon)
        if self.user is None and self.participations > 1:
            raise InvalidValue("privacy.participations", self.participations, "1 without privacy.user")
        if self.user in self.tables:
            raise InvalidValue("privacy.tables", self.user, "no table of users: rows of users never leave")

    def window(self, time: float) -> int:
        """The number of the window of a moment, in seconds."""
        return int(time // self.window_seconds)
