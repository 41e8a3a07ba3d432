"""FF1 of NIST SP 800-38G, word for word, for any radix and tweak: slow, and checked with the samples of NIST."""

import math
from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def encrypt(key: bytes, radix: int, tweak: bytes, digits: Sequence[int]) -> list[int]:
    n, t = len(digits), len(tweak)
    u = n // 2
    v = n - u
    a, b = list(digits[:u]), list(digits[u:])
    size = math.ceil(math.ceil(v * math.log2(radix)) / 8)
    d = 4 * math.ceil(size / 4) + 4
    p = bytes([1, 2, 1]) + radix.to_bytes(3) + bytes([10, u % 256]) + n.to_bytes(4) + t.to_bytes(4)
    for i in range(10):
        q = tweak + bytes((-t - size - 1) % 16) + bytes([i]) + _number(b, radix).to_bytes(size)
        r = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor().update(p + q)[-16:]
        s, count = r, 1
        while len(s) < d:
            block = bytes(x ^ y for x, y in zip(r, count.to_bytes(16), strict=True))
            s, count = s + Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block), count + 1
        m = u if i % 2 == 0 else v
        c = (_number(a, radix) + int.from_bytes(s[:d])) % radix**m
        a, b = b, _digits(c, radix, m)
    return [*a, *b]


def _number(digits: Sequence[int], radix: int) -> int:
    number = 0
    for digit in digits:
        number = number * radix + digit
    return number


def _digits(number: int, radix: int, count: int) -> list[int]:
    return [number // radix**place % radix for place in reversed(range(count))]
