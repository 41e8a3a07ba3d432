"""Numbers of bytes as people write them."""

import math
import re
from typing import Final

from alphaedge.errors import InvalidValue

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(field: str, text: str) -> int:
    """The bytes of a text such as 512M, 8G or 1.5T.

    >>> parse_size("memory", "8G")
    8589934592
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise InvalidValue(field, text, "a number followed by M, G or T, such as 8G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_size(size: float) -> str:
    """A number of bytes as a person reads it, rounded up.

    >>> show_size(1.41 * 2**30)
    '1.5G'
    """
    if size >= _UNITS["G"]:
        return f"{math.ceil(10 * size / _UNITS['G']) / 10}G"
    return f"{math.ceil(size / _UNITS['M'])}M"
