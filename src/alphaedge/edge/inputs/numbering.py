"""Which row of an id table belongs to which id: each edge's own numbering, made as ids appear.

Ids are never row numbers agreed in advance. An id is known by its key, a keyed hash: edges that share a fleet's key
understand each other's keys, and nobody else can tell an id from one. Keys protect against outsiders and against
casual reading; a member of the fleet, who has the key, can test guesses.

A new key gets a row at first sight. When all rows of the stated capacity are taken, the one that was unused for
longest gives way. What happens depends on the order of calls alone, so that a replayed journal gives the same rows.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, final

from alphaedge.errors import InvalidValue, check_number

KEY_BYTES: Final = 6  # of a million ids, two share a key once in 560 fleets
BLOCK: Final = 1024  # rows by which a table grows


def key_of(value: int | str | bytes, secret: bytes) -> int:
    """The key of an id under a fleet's secret. Without a secret a whole number is its own key (for tests alone).

    >>> key_of(7, b"")
    7
    """
    if not secret and isinstance(value, int) and 0 <= value < 1 << 8 * KEY_BYTES:
        return value
    text = value if isinstance(value, bytes) else str(value).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=KEY_BYTES, key=secret).digest())


class Admission(NamedTuple):
    """A row that now belongs to a key, and whose it was before, if it was anybody's."""

    row: int
    key: int
    before: int | None


@final
class Numbering:
    """The rows of one id table: at most ``capacity``, taken in order, then from the longest unused."""

    def __init__(self, capacity: int) -> None:
        check_number("capacity", capacity, low=1, whole=True)
        self.capacity = capacity
        self._rows: OrderedDict[int, int] = OrderedDict()  # from the longest unused key to the latest used

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def find(self, key: int) -> int | None:
        """The key's row, if it has one; looking is not using."""
        return self._rows.get(key)

    def use(self, keys: Iterable[int]) -> list[Admission]:
        """Note that these keys were used, in this order; those without a row get one.

        More different keys than there are rows can't be used at once: none of them would keep its row.
        """
        wanted = list(dict.fromkeys(keys))
        if len(wanted) > self.capacity:
            raise InvalidValue("ids at once", len(wanted), f"at most {self.capacity}, the rows of the table")
        for key in wanted:
            if key in self._rows:
                self._rows.move_to_end(key)
        admitted = []
        for key in wanted:
            if key in self._rows:
                continue
            before, row = None, len(self._rows)
            if row == self.capacity:
                before, row = self._rows.popitem(last=False)
            self._rows[key] = row
            admitted.append(Admission(row, key, before))
        return admitted

    def by_row(self) -> list[int]:
        """All keys by row."""
        found = [0] * len(self._rows)
        for key, row in self._rows.items():
            found[row] = key
        return found

    def order(self) -> list[int]:
        """All rows, the longest unused first."""
        return list(self._rows.values())

    @classmethod
    def restore(cls, capacity: int, keys: Sequence[int], order: Sequence[int]) -> "Numbering":
        """The numbering that ``by_row()`` and ``order()`` were taken from."""
        if sorted(order) != list(range(len(keys))) or len(set(keys)) < len(keys) or len(keys) > capacity:
            raise InvalidValue("numbering", f"{len(keys)} keys, {len(order)} rows", "each key and each row once")
        made = cls(capacity)
        for row in order:
            made._rows[keys[row]] = row
        return made


def grown(rows: int, capacity: int) -> int:
    """How many rows a table that needs ``rows`` has: whole blocks, larger ones for large tables, up to its capacity.

    >>> grown(1, 5000), grown(1025, 5000), grown(4999, 5000), grown(100_000, 10**6)
    (1024, 2048, 5000, 104448)
    """
    size = BLOCK
    while size < rows:
        size += max(1, size // (8 * BLOCK)) * BLOCK
    return min(capacity, size)
