"""Sets of keys on the wire, and lists of them that two edges have in common.

An edge that asks another for rows has to say which ids it knows. It says each key once: both ends keep the list of what
was said, and from then on the asker names the list, adds what is new, and the answer has one bit for each place of
the list. Who has forgotten the list, after a restart, says so and is told everything again.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.errors import KeyListError

MOST_KEYS: Final = 10_000_000
COUNT: Final = 4  # bytes for the number of keys


@final
@dataclass(frozen=True)
class KeyList:
    """Keys of each id table, each key once, in the order in which they were said; ``name`` tells lists apart."""

    keys: tuple[Tensor, ...]
    name: bytes = b""

    def extended(self, parts: Sequence[Sequence[bytes]]) -> "KeyList":
        """This list with more keys behind it, as they were packed: ``parts[p][t]``. A key said again moves there."""
        keys, name = list(self.keys), self.name
        for part in parts:
            for t, packed in enumerate(part):
                more = unpack_keys(packed)
                keys[t] = torch.cat([keys[t][~torch.isin(keys[t], more)], more])
                if len(keys[t]) > MOST_KEYS:
                    raise KeyListError(f"a list of more than {MOST_KEYS} keys")
                name = hashlib.blake2b(name + len(packed).to_bytes(8) + packed, digest_size=16).digest()
        return KeyList(tuple(keys), name)

    @classmethod
    def empty(cls, tables: int) -> "KeyList":
        """Nothing said yet."""
        return cls(tuple(torch.empty(0, dtype=torch.long) for _ in range(tables)))


def pack_keys(keys: Tensor) -> bytes:
    """Keys as a set, in few bytes: the gaps between them in order, byte by byte of equal weight, deflated."""
    ordered = np.sort(keys.numpy()).astype("<u8")
    gaps = np.diff(ordered, prepend=np.uint64(0))
    planes = np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 8).T)
    return len(ordered).to_bytes(COUNT, "little") + zlib.compress(planes.tobytes())


def unpack_keys(data: bytes) -> Tensor:
    """The keys of a packed set, in order."""
    count = int.from_bytes(data[:COUNT], "little")
    if len(data) <= COUNT or count > MOST_KEYS:
        raise KeyListError(f"{len(data)} bytes for {count} keys are no set of keys")
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(data[COUNT:], 8 * count + 1)
    except zlib.error as error:
        raise KeyListError(f"a set of keys can't be read ({error})") from None
    if len(raw) != 8 * count or inflate.unused_data:
        raise KeyListError(f"a set of {count} keys has other than {8 * count} bytes")
    gaps = np.ascontiguousarray(np.frombuffer(raw, np.uint8).reshape(8, count).T).view("<u8").reshape(-1)
    if float(gaps.astype(np.float64).sum()) >= 2.0**62 or (gaps[1:] == 0).any():
        raise KeyListError("a set of keys has keys twice, or keys that can't be")
    return torch.from_numpy(np.cumsum(gaps, dtype=np.uint64).astype(np.int64))


def pack_places(listed: Tensor, keys: Tensor) -> Tensor:
    """Which places of a list these keys have, one bit each."""
    return torch.from_numpy(np.packbits(torch.isin(listed, keys).numpy()))


def unpack_places(listed: Tensor, places: Tensor) -> Tensor:
    """The keys at the places of a list, in its order."""
    if places.dtype != torch.uint8 or places.shape != (-(-len(listed) // 8),):
        raise KeyListError(f"places of a list of {len(listed)} keys have shape {tuple(places.shape)}")
    bits = np.unpackbits(places.numpy()).astype(bool)
    if bits[len(listed) :].any():
        raise KeyListError(f"places behind the end of a list of {len(listed)} keys")
    return listed[torch.from_numpy(bits[: len(listed)])]
