"""One written form for the values of ids and categories, so that what is one id is one id everywhere.

A table says 7, a CSV file 7.0 because a row without a number made the column floating-point, a caller "7" or its
bytes. All of them mean one id. The simulator numbers the canonical forms, a live edge hashes them.
"""

import math
import re
import unicodedata
from typing import Final

from alphaedge.errors import InvalidValue

Value = str | bytes | int | float | bool | None
MISSING: Final = ""  # the form of no value, which is a value of its own
_WHOLE: Final = re.compile(r"(-?[0-9]+)\.0*")  # what is left of a whole number in a floating-point column
_BOOLEAN: Final = ("true", "false")


def canonical(value: Value) -> str:
    """Return the canonical form of a value: text in Unicode's composed form (NFC) without spaces around it.

    Whole numbers are their digits, whether they come as integers, floats or text. Text keeps leading zeros.

    >>> [canonical(v) for v in (7, 7.0, "7", " 7.0 ", b"7", "007", True, None)]
    ['7', '7', '7', '7', '7', '007', 'true', '']
    >>> canonical("Cafe\\u0301") == canonical("Caf\\u00e9")
    True
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return _BOOLEAN[not value]
    if isinstance(value, int):
        return digits(value)
    if isinstance(value, float):
        return _whole(value)
    return _text(value.decode(errors="surrogateescape") if isinstance(value, bytes) else value)


def digits(number: int) -> str:
    """Return a whole number as text; Python writes none of thousands of digits."""
    try:
        return str(number)
    except ValueError:
        raise InvalidValue("id", f"a number of {number.bit_length()} bits", "text or a shorter number") from None


def _text(text: str) -> str:
    text = text.strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).strip()
    if match := _WHOLE.fullmatch(text):
        return match[1]
    return text.lower() if len(text) in (4, 5) and text.lower() in _BOOLEAN else text


def _whole(number: float) -> str:
    if math.isnan(number):
        return MISSING
    if not number.is_integer():  # nor infinite
        raise InvalidValue("id", number, "text or a whole number: other numbers have no one written form")
    return str(int(number))
