"""Numbers that are written as text: with a decimal point or a decimal comma, with or without thousands."""

from collections.abc import Iterable
from typing import Final, Literal

import polars as pl

# plain: 1234.5; comma: 1.234,5 and 1234,5; grouped: 1,234.5. Ambiguous: 1,234, which is comma or grouped.
Format = Literal["plain", "comma", "grouped", "ambiguous"]
MISSING: Final = ("", "na", "n/a", "#n/a", "nan", "null", "none", "?")  # no number, in lower case

_COMMA: Final = r"^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$"
_GROUPED: Final = r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?$"
_THOUSANDS: Final = r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)$"


def is_missing(text: pl.Expr) -> pl.Expr:
    """Tell where a column of text has no value."""
    return text.is_null() | text.str.strip_chars().str.to_lowercase().is_in(MISSING)


def find_format(values: pl.Series) -> Format | None:
    """Return how these different texts, none of them missing, are written as numbers; None if they are not.

    >>> [find_format(pl.Series(v)) for v in (["1.5", "-2"], ["1.234,5", "2"], ["1,234.5"], ["1,234"], ["1", "a"])]
    ['plain', 'comma', 'grouped', 'ambiguous', None]
    """
    if values.cast(pl.Float64, strict=False).null_count() == 0:
        return "plain"
    comma, grouped = (bool(values.str.contains(pattern).all()) for pattern in (_COMMA, _GROUPED))
    if comma and grouped:
        return "ambiguous"
    if comma:
        return "comma"
    return "grouped" if grouped else None


def could_be_thousands(values: pl.Series) -> bool:
    """Tell whether every point in these texts may be one between thousands, and there is one.

    >>> could_be_thousands(pl.Series(["1.234", "56"])), could_be_thousands(pl.Series(["1.5"]))
    (True, False)
    """
    return bool(values.str.contains(_THOUSANDS).all()) and bool(values.str.contains(r"\.").any())


def uses_decimal_commas(formats: Iterable[Format | None]) -> bool:
    """Tell whether the numbers of a table have decimal commas, which decides what is ambiguous in single columns."""
    known = set(formats)
    return "comma" in known and "grouped" not in known


def parse(text: pl.Expr, form: Format) -> pl.Expr:
    """Parse text to float64; null where it is missing or not written in this form."""
    text = text.str.strip_chars()
    if form == "comma":
        plain = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        text = pl.when(text.str.contains(_COMMA)).then(plain)
    elif form == "grouped":
        text = pl.when(text.str.contains(_GROUPED)).then(text.str.replace_all(",", "", literal=True))
    return text.cast(pl.Float64, strict=False)
