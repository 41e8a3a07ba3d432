"""Names of edges and regions, and of places as people write them."""

import re
from typing import Final

from alphaedge.errors import InvalidValue

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
MAX_PLACE: Final = 80  # characters


def check_name(field: str, name: str) -> None:
    """Refuse a name that is not valid for an edge or a region."""
    if not re.fullmatch(NAME_PATTERN, name):
        allowed = "1 to 63 letters, digits, dots, dashes and underscores, starting with a letter or digit"
        raise InvalidValue(field, name, allowed)


def is_place(text: str) -> bool:
    """Whether a text may be shown as the name of a place: any letters, but nothing that moves a cursor."""
    return len(text) <= MAX_PLACE and text.isprintable()


def to_place(text: str) -> str:
    """Return a text as the name of a place, without what may not be shown.

    >>> to_place("Köln\\tSüd"), is_place("Köln\\tSüd")
    ('Köln Süd', False)
    """
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_PLACE]
