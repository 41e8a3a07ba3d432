"""The times of events: numbers, dates, or text of either."""

from dataclasses import dataclass
from itertools import product
from typing import Final, final

import polars as pl

from alphaedge.errors import InvalidValue

ALLOWED: Final = "a number, a date or a date and time"
_SAMPLE: Final = 2_000  # different values that the form of dates is found from
_DATES: Final = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y.%m.%d"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
_CLOCKS: Final = ("", " %H:%M:%S%.f", " %H:%M", " %I:%M %p", " %I:%M:%S %p")
_DAY_OR_MONTH: Final = r"^(\d{1,2})([/-])(\d{1,2})[/-]\d{4}"
_ZONE: Final = r"(:\d{2}(?:\.\d+)?(?: ?[AaPp][Mm])?)\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2})$"


@final
@dataclass(frozen=True)
class TimeFormat:
    """How times are written. dates: whether they are dates, not numbers. patterns: of dates as text.

    zones: the offsets from UTC that dates as text have at their ends; empty if they have none.
    """

    dates: bool
    patterns: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()

    def parse(self, column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
        """Return seconds since 1970, or the number itself; null where a value is neither."""
        if dtype.is_numeric():
            return column.cast(pl.Float64)
        if dtype in (pl.Date, pl.Datetime):
            return _seconds(column.cast(pl.Datetime("us")) if dtype == pl.Date else column)
        if dtype != pl.String:
            return pl.lit(None, pl.Float64)
        text = column.str.strip_chars()
        if not self.patterns:
            return text.cast(pl.Float64, strict=False)
        zone = text.str.extract(_ZONE, 2)
        parsed = _seconds(_parse(_without_zone(text), self.patterns))
        if not self.zones:
            return pl.when(zone.is_null()).then(parsed)
        return parsed - _offset(zone)


def looks_like_times(values: pl.Series) -> bool:
    """Tell whether these different texts are dates, with or without a time of day."""
    text = _sample(values)
    return len(text) > 0 and bool(_patterns(text, [*_DATES, *_either_order()]))


def find_format(values: pl.Series, whole: pl.LazyFrame, name: str) -> TimeFormat:
    """Return how the times in ``values``, the first ones of a column, are written.

    whole: the table, which is read if the first values do not tell days from months.
    """
    text = _sample(values) if values.dtype == pl.String else None
    if text is None or not text.cast(pl.Float64, strict=False).null_count():
        return TimeFormat(text is None and values.dtype.is_temporal())
    groups = text.str.extract_groups(_DAY_OR_MONTH).struct
    dates = list(_DATES)
    if groups.field("1").null_count() < len(text):
        dates += _day_or_month(text, whole, name)
    patterns = _patterns(text, dates)
    if not patterns:
        return TimeFormat(False)
    zones = text.str.extract(_ZONE, 2)
    if 0 < zones.null_count() < len(text):
        zoned, bare = text.filter(zones.is_not_null())[0], text.filter(zones.is_null())[0]
        raise InvalidValue(f"table: time {name}", f"{zoned} and {bare}", "an offset from UTC in every row or in none")
    return TimeFormat(True, patterns, tuple(zones.drop_nulls().unique().sort()))


def _sample(values: pl.Series) -> pl.Series:
    return values.drop_nulls().str.strip_chars().unique(maintain_order=True).head(_SAMPLE)


def _seconds(times: pl.Expr) -> pl.Expr:
    return times.dt.epoch("us") / 1e6


def _without_zone(text: pl.Expr) -> pl.Expr:
    return text.str.replace(_ZONE, "$1").str.replace(r"(\d)T(\d)", "$1 $2")


def _offset(zone: pl.Expr) -> pl.Expr:
    """Seconds that local time is ahead of UTC."""
    digits = zone.str.replace(":", "", literal=True)
    minutes = digits.str.slice(1, 2).cast(pl.Int64, strict=False) * 60 + digits.str.slice(3, 2).cast(pl.Int64, strict=False)  # fmt: skip # noqa: E501
    sign = pl.when(digits.str.starts_with("-")).then(-60).otherwise(60)
    return pl.when(zone.is_in(["Z", "UTC", "GMT"])).then(0).otherwise(sign * minutes)


def _parse(text: pl.Expr, patterns: tuple[str, ...]) -> pl.Expr:
    return pl.coalesce([text.str.to_datetime(p, strict=False, time_unit="us") for p in patterns])


def _patterns(text: pl.Series, dates: list[str]) -> tuple[str, ...]:
    """Return the fewest patterns, found greedily, that parse these texts; none if most can't be parsed."""
    left = text.to_frame("text").select(_without_zone(pl.col("text")))["text"]
    every, found = len(left), list[str]()
    candidates = [date + clock for date, clock in product(dates, _CLOCKS)]
    while len(left):
        parsed = {p: left.str.to_datetime(p, strict=False, time_unit="us").null_count() for p in candidates}
        best = min(candidates, key=lambda p: parsed[p])
        if parsed[best] == len(left):
            # What most values are is the form; the one that is not gets named when the whole column is parsed.
            return tuple(found) if len(left) <= every / 2 else ()
        left = left.filter(left.str.to_datetime(best, strict=False, time_unit="us").is_null())
        found.append(best)
    return tuple(found)


def _either_order() -> list[str]:
    return [f"%{a}{s}%{b}{s}%Y" for s in "/-" for a, b in ("dm", "md")]


def _day_or_month(text: pl.Series, whole: pl.LazyFrame, name: str) -> list[str]:
    """Return the order of day and month, which the days after the twelfth tell."""
    groups = pl.col(name).str.strip_chars().str.extract_groups(_DAY_OR_MONTH).struct
    late = [groups.field(group).cast(pl.Int64) > 12 for group in ("1", "3")]
    day_first, month_first = whole.select(late[0].any().alias("1"), late[1].any().alias("3")).collect(engine="streaming").row(0)  # fmt: skip # noqa: E501
    if day_first == month_first:
        raise InvalidValue(f"table: time {name}", text[0], "dates that tell days from months: write 2024-12-31")
    return [f"%{a}{s}%{b}{s}%Y" for s in "/-" for a, b in ("dm" if day_first else "md",)]
