"""The noise of an edge's private steps, from a secret that never leaves it.

The secret is 32 bytes in ``noise.key``, made once. With the number of a lot's first event, and a digest of all that its
step reads, it gives the key of a ChaCha20 keystream, and the stream's numbers give normal ones
(``core.privacy.noise``). So the same step always gets the same noise, and any other step gets another, even where an
old copy of the data folder numbers new events like earlier ones: two releases with the same noise could be subtracted.
Whoever lacks the file can't predict the noise; whoever has it can take the noise off again.
"""

import hashlib
import os
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Final, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from torch import Tensor

from alphaedge.core.privacy.noise import normal, pairs
from alphaedge.errors import CheckpointError
from alphaedge.files import replace_file

FILE: Final = "noise.key"
SECRET_BYTES: Final = 32
NONCE: Final = bytes(16)  # each key is used for one stream
NUMBER_BYTES: Final = 8
UNIT: Final = 2.0**-53  # of a double below 1


def load_secret(folder: Path, *, released: bool) -> bytes:
    """Read the secret of an edge's data folder, or make it.

    released: whether there is a checkpoint with a released model. Its secret can't be replaced: events since might be
    published once more, with other noise.
    """
    path = folder / FILE
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        if released:
            raise CheckpointError(
                f"{path} is gone, and a released model depends on it; restore it from a backup, or move "
                f"{folder / 'checkpoints'} away: the edge then starts anew and still keeps its promise"
            ) from None
        secret = os.urandom(SECRET_BYTES)
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, secret, durable=True, mode=0o600)
    if len(secret) != SECRET_BYTES:
        raise CheckpointError(f"{path} has {len(secret)} bytes, not {SECRET_BYTES}; restore it from a backup")
    return secret


@final
class SecretNoise:
    """Noise of all lots of an edge. terms: what the edge promises; other terms give other noise."""

    def __init__(self, secret: bytes, terms: str) -> None:
        self._secret, self._terms = secret, terms.encode()

    def __call__(self, first: int, read: bytes = b"") -> "LotNoise":
        """The noise of the lot whose first event has this number. read: a digest of all that its step reads."""
        message = first.to_bytes(8, "little") + len(read).to_bytes(1, "little") + read + self._terms
        return LotNoise(hashlib.blake2b(message, key=self._secret, digest_size=32, person=b"noise of a lot").digest())


@final
class LotNoise:
    """Standard normal numbers from a ChaCha20 keystream (see ``core.privacy.noise.Noise``)."""

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(ChaCha20(key, NONCE), mode=None).encryptor()

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        """The next numbers of the stream, in that shape. A live edge is the only one of its steps."""
        size = len(edges), 2, pairs(shape)
        bits = np.frombuffer(self._stream.update(bytes(NUMBER_BYTES * prod(size))), "<u8")
        uniform = ((bits >> 11).astype(np.float64) * UNIT).reshape(size)
        uniform[:, 0] += UNIT  # from above 0
        return normal(uniform, *shape)


def no_noise(first: int, _: bytes) -> LotNoise:
    """For a learner that publishes nothing; it can't take a private step."""
    raise CheckpointError(f"there is no noise for the lot from event {first} on")
