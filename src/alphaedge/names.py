"""Names of edges and regions: what they may look like, wherever they come from."""

import re
from typing import Final

from alphaedge.errors import InvalidValue

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


def check_name(field: str, name: str) -> None:
    """Refuse a name that an edge or a region can't have."""
    if not re.fullmatch(NAME, name):
        allowed = "1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit"
        raise InvalidValue(field, name, allowed)
