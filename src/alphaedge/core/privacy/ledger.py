"""Who has taken part in the private steps of a window, so that nobody counts more often than the promise allows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.settings import Privacy

U = TypeVar("U", bound=Hashable)


@final
@dataclass
class Ledger(Generic[U]):
    """One edge's account of a window.

    window: its number. windows: in which there was a private step at all. taken: by user, the private steps of the
    window so far. tallied: by user, how often it counts in the tallies that wait for noise, of however many windows;
    period: the number of that wait.
    """

    window: int = -1
    windows: int = 0
    taken: dict[U, int] = field(default_factory=dict)
    period: int = 0
    tallied: dict[U, int] = field(default_factory=dict)

    def open(self, window: int, period: int = 0) -> None:
        """Note a private step in a window. A clock that goes back does not open an earlier window again.

        period: how often noise has gone over the tallies before this step.
        """
        if window > self.window:
            self.window, self.taken = window, {}
            self.windows += 1
        if period > self.period:
            self.period, self.tallied = period, {}

    def admit(self, privacy: Privacy, users: Sequence[U]) -> tuple[list[bool], list[bool]]:
        """Which of a lot's examples count, by their users, and which of those count in tallies as well.

        Those users have taken part once more. Tallies of several windows may get noise together; a user counts in them
        no more often than in one window, so that windows compose as the accountant has it.
        """
        allowed = {user for user in users if self.taken.get(user, 0) < privacy.participations}
        in_tallies = {user for user in allowed if self.tallied.get(user, 0) < privacy.participations}
        for user in allowed:
            self.taken[user] = self.taken.get(user, 0) + 1
        for user in in_tallies:
            self.tallied[user] = self.tallied.get(user, 0) + 1
        return [user in allowed for user in users], [user in in_tallies for user in users]


def enter(
    privacy: Privacy, ledgers: Sequence[Ledger[int]], at: Sequence[tuple[int, int]], events: Batch, users: Tensor | None
) -> Lot:
    """The lots of k edges, entered in their ledgers: whose events count.

    at: the window and the period of each (``Ledger.open``). users: of the events, [k, L]; None where each event is
    protected on its own.
    """
    for ledger, (window, period) in zip(ledgers, at, strict=True):
        ledger.open(window, period)
    if users is None:
        return Lot.of_events(events)
    admitted = [ledger.admit(privacy, row) for ledger, row in zip(ledgers, users.tolist(), strict=True)]
    counts, tally_counts = torch.tensor(admitted, device=users.device).unbind(1)
    return Lot.of_users(events, users, counts, tally_counts)
