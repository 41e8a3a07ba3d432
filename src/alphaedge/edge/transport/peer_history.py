"""How a peer has behaved so far, which decides when to ask it again. Pure: no I/O."""

from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.backoff import Backoff

FIRST_REST_SECONDS: Final = 1.0
MAX_REST_SECONDS: Final = 60.0


@final
@dataclass
class PeerHistory:
    """Whether a peer rests, because it failed or because what it sent was refused. Each time in a row, it rests longer.

    An answer alone does not end that: only one that is accepted does.
    """

    _rest: Backoff = field(default_factory=lambda: Backoff(first=FIRST_REST_SECONDS, longest=MAX_REST_SECONDS))

    def is_resting(self, now: float) -> bool:
        """Whether to leave the peer alone for now."""
        return not self._rest.ready(now)

    def record_acceptance(self) -> None:
        """Note an answer that was accepted: the next failure is a first one again."""
        self._rest.succeeded()

    def record_failure(self, now: float, at_least: float = 0.0) -> None:
        """Note a failure or a refusal: the peer rests. at_least: seconds that it has asked for, up to a minute."""
        self._rest.failed(now)
        self._rest.retry_at = max(self._rest.retry_at, now + min(at_least, MAX_REST_SECONDS))
