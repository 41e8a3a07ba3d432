"""Which edges have sent false signatures, and are left alone for a while. Pure: the time is an argument."""

from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.backoff import Backoff
from alphaedge.errors import PeerForbidden

FIRST_REST_SECONDS: Final = 5.0
MAX_REST_SECONDS: Final = 300.0
MAX_SENDERS: Final = 10_000  # that are remembered


@final
@dataclass
class Senders:
    """How the senders of messages behave. An honest edge passes on only what it has verified itself."""

    _rests: dict[str, Backoff] = field(default_factory=dict)

    def is_resting(self, sender: str, now: float) -> bool:
        """Whether a sender is left alone, because it has sent false signatures."""
        rest = self._rests.get(sender)
        return rest is not None and not rest.ready(now)

    def check(self, sender: str, now: float) -> None:
        """Refuse a message of a sender that is left alone."""
        if self.is_resting(sender, now):
            seconds = self._rests[sender].retry_at - now
            raise PeerForbidden(f"{sender} has sent false signatures; it is heard again in {seconds:.0f} s")

    def blame(self, sender: str, now: float) -> None:
        """Note that a message had a false signature: its sender is left alone, longer each time."""
        if sender not in self._rests and len(self._rests) >= MAX_SENDERS:
            del self._rests[next(iter(self._rests))]
        rest = self._rests.setdefault(sender, Backoff(first=FIRST_REST_SECONDS, longest=MAX_REST_SECONDS))
        rest.failed(now)

    def forgive(self, sender: str) -> None:
        """Note that a message had none."""
        self._rests.pop(sender, None)
