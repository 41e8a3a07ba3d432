"""Key lists: which ids a pull is about, in few bytes.

An edge that pulls rows must say which ids it knows. It sends each key once. Both ends keep the list: later requests
name it and add what is new, and an answer has one bit for each position. A peer that has lost the list after a restart
says so and gets all keys again.
"""

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.errors import KeyListError

KEY_BYTES: Final = 8  # of an unpacked key
COUNT_BYTES: Final = 4  # the number of keys in front of a packed set
PART_BYTES: Final = 1 << 16
KEYS_AT_ONCE: Final = 1 << 14
MAX_DEFLATE_RATIO: Final = 1040  # zlib makes nothing smaller than that
MIN_MAX_KEYS: Final = 100_000
KEYS_PER_ROW: Final = 4  # a list still has keys whose rows are gone, and a peer's tables may be larger
LISTS_PER_PEER: Final = 2  # the last one, and the one before it in case the last answer was lost
MAX_LIST_BYTES: Final = 256 << 20  # of all peers' lists, unless one peer's are more

Packed = bytes | memoryview
"""A packed set of keys."""

Decrypt = Callable[[Tensor], Tensor]
"""From keys on the wire to stored ones (``wire_keys``)."""


def max_keys(capacities: Iterable[int]) -> int:
    """The most keys that a peer's list may have, given how many rows this edge's id tables may have.

    >>> max_keys([1000, 500]), max_keys([1_000_000])
    (100000, 4000000)
    """
    return max(MIN_MAX_KEYS, KEYS_PER_ROW * sum(capacities))


@final
@dataclass(frozen=True)
class KeyList:
    """Keys of each id table, each once, in the order in which they were sent; ``name`` identifies the list."""

    keys: tuple[Tensor, ...]
    name: bytes = b""

    def extended(self, parts: Sequence[Sequence[Packed]], decrypt: Decrypt) -> "KeyList":
        """This list with packed keys ``parts[p][t]`` appended. A key that is sent again moves to the end.

        decrypt: from keys on the wire to stored ones, which the list has. Their order is that on the wire.
        """
        keys, name = list(self.keys), self.name
        for part in parts:
            for t, packed in enumerate(part):
                more = decrypt(unpack_keys(packed))
                if len(more):
                    again = _among(keys[t], more.sort().values)
                    keys[t] = torch.cat([keys[t][~again], more]) if len(keys[t]) else more
                digest = hashlib.blake2b(name + len(packed).to_bytes(8), digest_size=16)
                digest.update(packed)
                name = digest.digest()
        return KeyList(tuple(keys), name)

    @property
    def count(self) -> int:
        """How many keys it has."""
        return sum(map(len, self.keys))

    @classmethod
    def empty(cls, tables: int) -> "KeyList":
        """A list without keys."""
        return cls(tuple(torch.empty(0, dtype=torch.long) for _ in range(tables)))


def pack_keys(keys: Tensor) -> bytes:
    """Encode a set of keys: the sorted keys' differences, one byte plane after the other, deflated."""
    ordered = np.sort(keys.numpy()).astype("<u8")
    gaps = np.diff(ordered, prepend=np.uint64(0))
    planes = np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 8).T)
    return len(ordered).to_bytes(COUNT_BYTES, "little") + zlib.compress(planes.tobytes())


def declared_count(data: Packed) -> int:
    """The number of keys that a packed set says it has. Nothing is unpacked."""
    return int.from_bytes(data[:COUNT_BYTES], "little")


def unpack_keys(data: Packed) -> Tensor:
    """Decode a set of keys, sorted. Check ``declared_count`` before: this takes that many times eight bytes."""
    count = declared_count(data)
    if len(data) <= COUNT_BYTES or KEY_BYTES * count > MAX_DEFLATE_RATIO * len(data):
        raise KeyListError(f"{len(data)} bytes for {count} keys are no set of keys")
    gaps = np.empty(count, "<u8")
    _inflate_planes(memoryview(data)[COUNT_BYTES:], gaps.view(np.uint8).reshape(count, KEY_BYTES))
    last = 0
    for start in range(0, count, KEYS_AT_ONCE):  # in place: there may be many
        part = gaps[start : start + KEYS_AT_ONCE]
        if last + float(part.astype(np.float64).sum()) >= 2.0**62 or not part[not start :].all():
            raise KeyListError("the key set contains duplicate or out-of-range keys")
        part[0] += np.uint64(last)
        part[:] = np.cumsum(part)
        last = int(part[-1])
    return torch.from_numpy(gaps.view(np.int64))


def _inflate_planes(data: memoryview, planes: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> None:
    """Inflate data to byte planes [count, 8], one after the other, in small parts: nothing is there twice."""
    size, place, inflate = planes.size, 0, zlib.decompressobj()
    count = len(planes)
    try:
        for start in range(0, len(data), PART_BYTES):
            part: memoryview | bytes = data[start : start + PART_BYTES]
            while part:
                room = count - place % count if place < size else 1
                made = np.frombuffer(inflate.decompress(part, room), np.uint8)
                part = inflate.unconsumed_tail
                if place + len(made) > size:
                    break
                if len(made):
                    planes[place % count : place % count + len(made), place // count] = made
                    place += len(made)
    except zlib.error as error:
        raise KeyListError(f"a set of {count} keys can't be read ({error})") from None
    if place < size or not inflate.eof or inflate.unused_data:
        raise KeyListError(f"a set of {count} keys has other than {size} bytes")


def _among(keys: Tensor, some: Tensor) -> Tensor:
    """Which keys are among ``some``, which are sorted."""
    if not len(some):
        return torch.zeros(len(keys), dtype=torch.bool)
    last = len(some) - 1
    found = torch.empty(len(keys), dtype=torch.bool)
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[start : start + KEYS_AT_ONCE]
        found[start : start + len(part)] = some[torch.searchsorted(some, part).clamp(max=last)] == part
    return found


def pack_places(listed: Tensor, keys: Tensor) -> Tensor:
    """Encode the positions of keys in a list, one bit each."""
    return torch.from_numpy(np.packbits(_among(listed, keys.sort().values).numpy()))


def unpack_places(listed: Tensor, places: Tensor) -> Tensor:
    """Decode positions in a list to keys, in the list's order."""
    if places.dtype != torch.uint8 or places.shape != (-(-len(listed) // 8),):
        raise KeyListError(f"places of a list of {len(listed)} keys have shape {tuple(places.shape)}")
    bits = np.unpackbits(places.numpy()).astype(bool)
    if bits[len(listed) :].any():
        raise KeyListError(f"places behind the end of a list of {len(listed)} keys")
    return listed[torch.from_numpy(bits[: len(listed)])]


@final
@dataclass
class ReceivedLists:
    """The last key lists that peers have sent, up to a number of bytes: those of the most silent peer go first.

    A peer whose lists are gone is told so, and sends all keys again.
    """

    max_bytes: int = MAX_LIST_BYTES
    _lists: OrderedDict[str, list[KeyList]] = field(default_factory=OrderedDict)

    def of(self, peer: str) -> Sequence[KeyList]:
        """The lists that a peer may build on."""
        return self._lists.get(peer, ())

    def keep(self, peer: str, made: KeyList) -> None:
        """Keep the newest list of a peer."""
        self._lists[peer] = [*self._lists.pop(peer, ()), made][-LISTS_PER_PEER:]
        while len(self._lists) > 1 and self.bytes > self.max_bytes:
            self._lists.popitem(last=False)

    @property
    def bytes(self) -> int:
        """What the lists take, with a little for each."""
        return sum(KEY_BYTES * one.count + 1000 for lists in self._lists.values() for one in lists)
