"""How a peer has answered so far, which decides how long to wait for it and when to ask it again. Pure: no I/O."""

from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.backoff import Backoff

MIN_DEADLINE_SECONDS: Final = 2.0
MAX_DEADLINE_SECONDS: Final = 60.0
FIRST_DEADLINE_SECONDS: Final = MAX_DEADLINE_SECONDS / 2  # before the first answer
DEADLINE_FACTOR: Final = 5.0  # times the usual duration
SMOOTHING: Final = 0.3  # the part of the last answer in the usual duration
FIRST_REST_SECONDS: Final = 1.0
MAX_REST_SECONDS: Final = 60.0


@final
@dataclass
class PeerHistory:
    """How long a peer's answers take, and whether it rests after failures.

    usual: the smoothed duration of its answers in seconds; 0 before the first one.
    """

    usual: float = 0.0
    _rest: Backoff = field(default_factory=lambda: Backoff(first=FIRST_REST_SECONDS, longest=MAX_REST_SECONDS))

    def deadline(self) -> float:
        """Seconds that the next answer may take."""
        if not self.usual:
            return FIRST_DEADLINE_SECONDS
        return min(MAX_DEADLINE_SECONDS, max(MIN_DEADLINE_SECONDS, DEADLINE_FACTOR * self.usual))

    def is_resting(self, now: float) -> bool:
        """Whether to leave the peer alone because it has failed."""
        return not self._rest.ready(now)

    def record_answer(self, seconds: float) -> None:
        """Note an answer and how long it took: the peer no longer rests."""
        self.usual = (1 - SMOOTHING) * self.usual + SMOOTHING * seconds if self.usual else seconds
        self._rest.succeeded()

    def record_failure(self, now: float) -> None:
        """Note a failure: the peer rests, longer after each further failure, and has twice as long to answer."""
        self._rest.failed(now)
        self.usual = min(MAX_DEADLINE_SECONDS, 2 * self.usual)
