"""Keys as they travel: for each pair of edges other ones, under a secret that an operator can change.

A stored key is a hash of an id under the fleet's first secret. It stays as it is: the journal, the id tables and what
is held of peers depend on it. What an edge sends instead is that key encrypted for this pair of edges, in this
direction, and the receiver decrypts it. The cipher is FF1 (NIST SP 800-38G) with AES-256: 48 bits in, 48 bits out, so
no two keys become one, and lists are as short as before. Both ends keep stored keys, so a new secret outdates no list.

This keeps out whoever does not have the secret in use. It does not keep out members, who have it.
"""

import hashlib
from typing import Final, final

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from alphaedge.edge.inputs.numbering import KEY_BYTES
from alphaedge.edge.trust.wire_secrets import WireSecret, WireSecrets
from alphaedge.errors import KeyListError, SecretUnknown

KEY_BITS: Final = 8 * KEY_BYTES
HALF_BITS: Final = KEY_BITS // 2
HALF: Final = np.uint32((1 << HALF_BITS) - 1)
ROUNDS: Final = 10
BLOCK_BYTES: Final = 16
KEYS_AT_ONCE: Final = 1 << 14
Half = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]
# The block P of FF1: version 1, method 2, addition 1, radix 2, 10 rounds, halves of 24 of 48 bits, no tweak.
HEAD: Final = bytes([1, 2, 1, 0, 0, 2, ROUNDS, HALF_BITS, 0, 0, 0, KEY_BITS, 0, 0, 0, 0])


@final
class KeyCipher:
    """The keys that one edge names to another. asking, answering: the edges' names, as in their certificates."""

    def __init__(self, secret: WireSecret, asking: str, answering: str) -> None:
        pair = b"keys\0" + asking.encode() + b"\0" + answering.encode()
        self.secret = secret.name
        self._aes = Cipher(
            algorithms.AES(hashlib.blake2b(pair, digest_size=32, key=secret.value).digest()), modes.ECB()
        )
        self._first = np.frombuffer(self._aes.encryptor().update(HEAD), ">u4")

    def encrypt(self, keys: Tensor) -> Tensor:
        """Return what stands for stored keys on the wire, in the same order."""
        return self._permute(keys, forward=True)

    def decrypt(self, keys: Tensor) -> Tensor:
        """Return the stored keys; ``KeyListError`` if one is no key."""
        return self._permute(keys, forward=False)

    def _permute(self, keys: Tensor, *, forward: bool) -> Tensor:
        if len(keys) and not 0 <= int(keys.min()) <= int(keys.max()) < 1 << KEY_BITS:
            raise KeyListError(f"keys of more than {KEY_BITS} bits")
        made = np.empty(len(keys), np.int64)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            part = keys[start : start + KEYS_AT_ONCE].numpy()
            left, right = (part >> HALF_BITS).astype(np.uint32), (part & int(HALF)).astype(np.uint32)
            for number in range(ROUNDS) if forward else reversed(range(ROUNDS)):
                if forward:
                    left, right = right, (left + self._mask(number, right)) & HALF
                else:
                    left, right = (right - self._mask(number, left)) & HALF, left
            made[start : start + len(part)] = (left.astype(np.int64) << HALF_BITS) | right
        return torch.from_numpy(made)

    def _mask(self, number: int, half: Half) -> Half:
        """FF1's round function: what is added to the other half. Only its lowest bits count."""
        blocks = np.empty((len(half), 4), ">u4")
        blocks[:, :3] = self._first[:3]
        blocks[:, 3] = self._first[3] ^ np.uint32(number << HALF_BITS) ^ half
        encrypted = np.frombuffer(self._aes.encryptor().update(blocks.view(np.uint8).data), ">u4").reshape(-1, 4)
        return encrypted[:, 1].astype(np.uint32)


def cipher_named(secrets: WireSecrets, name: bytes, asking: str, answering: str) -> KeyCipher:
    """Return the cipher of a request. name: of the secret that it was made under; ``SecretUnknown`` if not here."""
    for secret in secrets.newest_first:
        if secret.name == name:
            return KeyCipher(secret, asking, answering)
    raise SecretUnknown("keys under a secret that this edge does not have; both need the same secret and wire.secrets")
