"""Who has taken part in the private steps of a window, so that nobody counts more often than the promise allows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

from alphaedge.core.privacy.settings import Privacy

U = TypeVar("U", bound=Hashable)


@final
@dataclass
class Ledger(Generic[U]):
    """One edge's account of a window.

    window: its number. taken: by user, the private steps of the window so far. windows: in which there was one at all.
    """

    window: int = -1
    windows: int = 0
    taken: dict[U, int] = field(default_factory=dict)

    def open(self, window: int) -> None:
        """Note a private step in a window. A clock that goes back does not open an earlier window again."""
        if window > self.window:
            self.window, self.taken = window, {}
            self.windows += 1

    def admit(self, privacy: Privacy, users: Sequence[U]) -> list[bool]:
        """Which of a lot's examples count, by their users; those users have taken part once more."""
        allowed = {user for user in users if self.taken.get(user, 0) < privacy.participations}
        for user in allowed:
            self.taken[user] = self.taken.get(user, 0) + 1
        return [user in allowed for user in users]
