"""Names of edges and regions."""

import re
from typing import Final

from alphaedge.errors import InvalidValue

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


def check_name(field: str, name: str) -> None:
    """Refuse a name that is not valid for an edge or a region."""
    if not re.fullmatch(NAME_PATTERN, name):
        allowed = "1 to 63 letters, digits, dots, dashes and underscores, starting with a letter or digit"
        raise InvalidValue(field, name, allowed)
