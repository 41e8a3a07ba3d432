"""The labels of events: two values to tell apart, or numbers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from alphaedge.data.stream import Task
from alphaedge.data.table import numbers
from alphaedge.data.table.looks import NUMERIC, Look
from alphaedge.errors import InvalidValue
from alphaedge.values import canonical

_SHOWN: Final = 3  # values in a message
# A label says whether something happened. In alphabetical order, "ja" would be 0 and "nein" 1.
_YES: Final = frozenset({"yes", "y", "true", "t", "ja", "j", "oui", "o", "si", "sí", "s", "sim", "tak", "da", "evet"})
_NO: Final = frozenset({"no", "n", "not", "none", "false", "f", "nein", "non", "não", "nao", "nie", "net", "nej", "ne"})


def parse_label(column: pl.Expr, dtype: pl.DataType, look: Look) -> pl.Expr:
    """Return a label as a number if it is one, else as text; null where there is none."""
    if dtype == pl.String:
        text = column.str.strip_chars()
        if look.kind == "flag":
            flag = text.str.to_lowercase()
            return pl.when(flag.is_in(["true", "false"])).then((flag == "true").cast(pl.Float64))
        if look.form is not None:
            return numbers.parse(column, look.form).fill_nan(None)
        one_case = look.classes == 2 < look.distinct  # "Ja" and "ja" are one answer
        return pl.when(~numbers.is_missing(column)).then(text.str.to_lowercase() if one_case else text)
    if dtype.is_numeric() or dtype == pl.Boolean:
        return column.cast(pl.Float64).fill_nan(None)
    return column.cast(pl.String) if not dtype.is_nested() else pl.lit(None, pl.String)


class EncodedLabels(NamedTuple):
    """Labels as float32. classes: what 0 and 1 stand for, where labels are two values to tell apart."""

    labels: pl.Series
    classes: tuple[str, str] | None


def encode_labels(labels: pl.Series, name: str, task: Task, look: Look) -> EncodedLabels:
    """Encode labels, none of them missing: as 0 and 1 to classify (``in_order``), else as they are."""
    where = f"table: label {name}"
    distinct = labels.unique().sort()
    if len(distinct) < 2:
        allowed = "at least two different values; name another column with --label"
        only = distinct[0]
        raise InvalidValue(where, f"{only:g} in every row" if isinstance(only, float) else only, allowed)
    if task == "classify":
        if len(distinct) > 2:
            raise InvalidValue(where, f"{len(distinct)} different values", "two, to classify; else --task regress")
        positive: pl.Series = labels == in_order(distinct.to_list())[1]
        return EncodedLabels(positive.cast(pl.Float32), name_classes(distinct.to_list(), look))
    if look.kind not in NUMERIC:
        shown = ", ".join(map(str, distinct.head(_SHOWN))) + (", ..." if len(distinct) > _SHOWN else "")
        allowed = "two different values to classify, or numbers to regress; name another column with --label"
        found = f"{look.stray!r} among numbers" if look.stray else f"{len(distinct)} different texts: {shown}"
        raise InvalidValue(where, found, allowed)
    return EncodedLabels(check_finite(labels.cast(pl.Float32), where), None)


def in_order(values: Sequence[float | str]) -> Sequence[float | str]:
    """Return two labels, the one that counts as 1 last: a yes after what is none, else the larger one.

    >>> in_order(["ja", "nein"]), in_order(["kept", "returned"]), in_order([0.0, 1.0])
    (['nein', 'ja'], ['kept', 'returned'], [0.0, 1.0])
    """
    first, second = values
    if _is(first, _YES) > _is(second, _YES) or _is(second, _NO) > _is(first, _NO):
        return [second, first]
    return [first, second]


def _is(value: float | str, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value.lower() in words


def name_classes(values: Sequence[float | str], look: Look) -> tuple[str, str]:
    """Return what 0 and 1 stand for. values: the two labels as parsed, the smaller one first."""
    if look.kind == "flag":
        return "false", "true"
    negative, positive = (f"{v:g}" if isinstance(v, float) else canonical(v) for v in in_order(values))
    return negative, positive


def check_finite(values: pl.Series, where: str) -> pl.Series:
    """Refuse infinite numbers."""
    wrong = values.is_infinite().fill_null(False)
    if wrong.any():
        raise InvalidValue(where, values.filter(wrong)[0], "finite numbers (or nothing, where there is none)")
    return values
