"""Numbers as people read them."""

from typing import Final

NONE: Final = "\N{EN DASH}"  # where there is no number


def human(count: float) -> str:
    """Bytes for people.

    >>> human(0), human(999), human(1_234_567)
    ('0 B', '999 B', '1.23 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while count >= 999.5 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return f"{count:.3g} {units[0]}" if count < 999.5 else f"{count:.0f} {units[0]}"
