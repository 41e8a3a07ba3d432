"""Which connections stay open when there are too many. Pure: connections are any objects that can be told apart.

Whoever has the most connections loses one first, its oldest that has nothing to do. So a flood of connections closes
its own, and an honest peer always gets in.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, final

T = TypeVar("T")

MAX_PER_MEMBER: Final = 8
UNIDENTIFIED_PART: Final = 4  # at most one in so many connections may still have to show its certificate


@final
@dataclass
class _Connection:
    owner: str  # the member, or the address of whoever has not shown a certificate yet
    identified: bool = False
    busy: bool = False


@final
@dataclass
class ConnectionTable(Generic[T]):
    """The open connections, the oldest first. max_total: of all together."""

    max_total: int
    max_per_member: int = MAX_PER_MEMBER
    _open: dict[T, _Connection] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._open))

    def add(self, connection: T, address: str) -> T | None:
        """Add a connection from an address; returns the one to close for it, if there are too many."""
        self._open[connection] = _Connection(address)
        waiting = {c: one for c, one in self._open.items() if not one.identified}
        if len(waiting) > max(1, self.max_total // UNIDENTIFIED_PART):
            return self._choose(waiting, connection)
        return self._choose(self._open, connection) if len(self._open) > self.max_total else None

    def identify(self, connection: T, member: str) -> T | None:
        """Note whose connection it is; returns the one to close if that member has too many."""
        entry = self._open.get(connection)
        if entry is None or entry.identified:
            return None
        entry.owner, entry.identified = member, True
        own = {c: one for c, one in self._open.items() if one.identified and one.owner == member}
        return self._choose(own, connection) if len(own) > self.max_per_member else None

    def set_busy(self, connection: T, *, busy: bool) -> None:
        """Note whether a request is being answered."""
        entry = self._open.get(connection)
        if entry is not None:
            entry.busy = busy

    def remove(self, connection: T) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)

    def owner(self, connection: T) -> str | None:
        """The member whose connection it is, if that is known."""
        entry = self._open.get(connection)
        return entry.owner if entry is not None and entry.identified else None

    def of_member(self, member: str) -> list[T]:
        """The connections of a member."""
        return [c for c, one in self._open.items() if one.identified and one.owner == member]

    def _choose(self, among: dict[T, _Connection], newest: T) -> T:
        sizes = Counter((one.identified, one.owner) for one in among.values())
        most = max(sizes.values())
        crowd = [c for c, one in among.items() if sizes[one.identified, one.owner] == most and c != newest]
        return next((c for c in crowd if not among[c].busy), crowd[0] if crowd else newest)
