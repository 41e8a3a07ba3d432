"""Which row of an id table belongs to which id: each edge numbers the rows itself, as ids appear.

An id is known by its key, a keyed hash. Edges that share a fleet's secret understand each other's keys; without the
secret a key does not reveal its id. Keys protect against outsiders and against casual reading; a member of the fleet,
which has the secret, can test guesses.

A new key gets a row when it is first used. When all rows are taken, the least recently used one is given to the new
key. The result depends on the order of calls alone, so a replayed journal gives the same rows.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, final

from alphaedge.errors import InvalidValue, check_number
from alphaedge.values import Value, canonical

KEY_BYTES: Final = 6  # in a fleet with a million ids, the chance that two share a key is 1 in 560
KEYS: Final = 1 << 8 * KEY_BYTES
BLOCK_ROWS: Final = 1024  # rows by which a table grows


def key_of(value: Value, secret: bytes) -> int:
    """The key of an id or a category under a fleet's secret: a hash of its canonical form.

    Without a secret a whole number is its own key (for tests only).

    >>> key_of(7, b""), key_of("7.0", b"")
    (7, 7)
    """
    text = canonical(value)
    short = not secret and len(text) <= len(str(KEYS))  # Python reads no number of thousands of digits
    if short and text.isdecimal() and text == str(number := int(text)) and number < KEYS:
        return number
    return int.from_bytes(
        hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=KEY_BYTES, key=secret).digest()
    )


class Admission(NamedTuple):
    """A row that now belongs to a key. previous: the key that it belonged to before, if any."""

    row: int
    key: int
    previous: int | None


@final
class Numbering:
    """The rows of one id table: at most ``capacity``, taken in order, then from the least recently used key."""

    def __init__(self, capacity: int) -> None:
        check_number("capacity", capacity, low=1, whole=True)
        self.capacity = capacity
        self._rows: OrderedDict[int, int] = OrderedDict()  # the least recently used key first

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def find(self, key: int) -> int | None:
        """Return the row of a key, if it has one. This does not count as a use."""
        return self._rows.get(key)

    def use(self, keys: Iterable[int]) -> list[Admission]:
        """Mark keys as used, in this order, and give a row to those without one; return these.

        No key loses its row to another one of the same call: new keys that find no room get no row.
        """
        used = list(dict.fromkeys(keys))
        known, new = [k for k in used if k in self._rows], [k for k in used if k not in self._rows]
        for key in known:
            self._rows.move_to_end(key)
        admitted = []
        for key in new[: self.capacity - len(known)]:
            previous, row = None, len(self._rows)
            if row == self.capacity:
                previous, row = self._rows.popitem(last=False)
            self._rows[key] = row
            admitted.append(Admission(row, key, previous))
        return admitted

    def keys_by_row(self) -> list[int]:
        """Return all keys, in the order of their rows."""
        keys = [0] * len(self._rows)
        for key, row in self._rows.items():
            keys[row] = key
        return keys

    def rows_by_last_use(self) -> list[int]:
        """Return all rows, the least recently used first."""
        return list(self._rows.values())

    @classmethod
    def restore(cls, capacity: int, keys: Sequence[int], order: Sequence[int]) -> "Numbering":
        """Restore a numbering from its ``keys_by_row()`` and ``rows_by_last_use()``."""
        if sorted(order) != list(range(len(keys))) or len(set(keys)) < len(keys) or len(keys) > capacity:
            raise InvalidValue("numbering", f"{len(keys)} keys, {len(order)} rows", "each key and each row once")
        numbering = cls(capacity)
        for row in order:
            numbering._rows[keys[row]] = row
        return numbering


def rows_to_allocate(rows: int, capacity: int) -> int:
    """Rows to allocate for a table that needs ``rows``: whole blocks, more of them for large tables, up to capacity.

    >>> rows_to_allocate(1, 5000), rows_to_allocate(1025, 5000), rows_to_allocate(4999, 5000)
    (1024, 2048, 5000)
    >>> rows_to_allocate(100_000, 10**6)
    104448
    """
    size = BLOCK_ROWS
    while size < rows:
        size += max(1, size // (8 * BLOCK_ROWS)) * BLOCK_ROWS
    return min(capacity, size)
