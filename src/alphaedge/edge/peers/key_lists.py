"""Key lists: which ids a pull is about, in few bytes.

An edge that pulls rows must say which ids it knows. It sends each key once. Both ends keep the list: later requests
name it and add what is new, and an answer has one bit for each position. A peer that has lost the list after a restart
says so and gets all keys again.
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

MAX_KEYS: Final = 10_000_000
COUNT_BYTES: Final = 4  # the number of keys in front of a packed set


@final
@dataclass(frozen=True)
class KeyList:
    """Keys of each id table, each once, in the order in which they were sent; ``name`` identifies the list."""

    keys: tuple[Tensor, ...]
    name: bytes = b""

    def extended(self, parts: Sequence[Sequence[bytes]]) -> "KeyList":
        """This list with packed keys ``parts[p][t]`` appended. A key that is sent again moves to the end."""
        keys, name = list(self.keys), self.name
        for part in parts:
            for t, packed in enumerate(part):
                more = unpack_keys(packed)
                keys[t] = torch.cat([keys[t][~torch.isin(keys[t], more)], more])
                if len(keys[t]) > MAX_KEYS:
                    raise KeyListError(f"a list of more than {MAX_KEYS} keys")
                name = hashlib.blake2b(name + len(packed).to_bytes(8) + packed, digest_size=16).digest()
        return KeyList(tuple(keys), name)

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


def unpack_keys(data: bytes) -> Tensor:
    """Decode a set of keys, sorted."""
    count = int.from_bytes(data[:COUNT_BYTES], "little")
    if len(data) <= COUNT_BYTES or count > MAX_KEYS:
        raise KeyListError(f"{len(data)} bytes for {count} keys are no set of keys")
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(data[COUNT_BYTES:], 8 * count + 1)
    except zlib.error as error:
        raise KeyListError(f"a set of keys can't be read ({error})") from None
    if len(raw) != 8 * count or inflate.unused_data:
        raise KeyListError(f"a set of {count} keys has other than {8 * count} bytes")
    gaps = np.ascontiguousarray(np.frombuffer(raw, np.uint8).reshape(8, count).T).view("<u8").reshape(-1)
    if float(gaps.astype(np.float64).sum()) >= 2.0**62 or (gaps[1:] == 0).any():
        raise KeyListError("the key set contains duplicate or out-of-range keys")
    return torch.from_numpy(np.cumsum(gaps, dtype=np.uint64).astype(np.int64))


def pack_places(listed: Tensor, keys: Tensor) -> Tensor:
    """Encode the positions of keys in a list, one bit each."""
    return torch.from_numpy(np.packbits(torch.isin(listed, keys).numpy()))


def unpack_places(listed: Tensor, places: Tensor) -> Tensor:
    """Decode positions in a list to keys, in the list's order."""
    if places.dtype != torch.uint8 or places.shape != (-(-len(listed) // 8),):
        raise KeyListError(f"places of a list of {len(listed)} keys have shape {tuple(places.shape)}")
    bits = np.unpackbits(places.numpy()).astype(bool)
    if bits[len(listed) :].any():
        raise KeyListError(f"places behind the end of a list of {len(listed)} keys")
    return listed[torch.from_numpy(bits[: len(listed)])]
