"""Guess what is not named: which columns are time, edge and label, what kinds the others are, and the task."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from alphaedge.data.label_past import find_last
from alphaedge.data.table.columns import NO_LAST, Table
from alphaedge.data.table.labels import parse_label
from alphaedge.data.table.looks import DISCRETE, NUMERIC, Look
from alphaedge.data.table.reading import Source
from alphaedge.errors import InvalidValue

MAX_CATEGORIES: Final = 64  # a guess takes a column with more different values for an id
MAX_QUANTITIES: Final = 1_000  # a guess takes whole numbers with more different values for ids
_DENSE: Final = 0.5  # of the numbers between the smallest and the largest, that occur
MAX_EDGES: Final = 500  # a guess takes no column with more different values for the edge
_ROWS_PER_EDGE: Final = 10  # at least, on average, for a guess
# Words in the names of columns.
_TIMES: Final = {"time", "date", "datetime", "timestamp", "when", "ts", "t", "epoch", "moment"}
_PERIODS: Final = {"day", "week", "month", "year", "hour", "step"}  # if they never go back
_EDGES: Final = {
    *("edge", "region", "place", "site", "shop", "store", "station", "country", "city", "town", "branch", "market"),
    *("plant", "location", "warehouse", "hospital", "clinic", "depot", "district", "county", "state", "province"),
    *("office", "airport", "sensor"),
}
_IDS: Final = {
    *(
        "id",
        "ids",
        "user",
        "customer",
        "client",
        "member",
        "account",
        "person",
        "household",
        "item",
        "product",
        "article",
    ),
    *(
        "sku",
        "movie",
        "film",
        "book",
        "song",
        "hotel",
        "room",
        "device",
        "code",
        "number",
        "no",
        "nr",
        "zip",
        "postcode",
    ),
}
_LABELS: Final = {
    *("label", "target", "y", "outcome", "sold", "clicked", "click", "converted", "conversion", "purchased", "bought"),
    *("churn", "churned", "response", "class", "default", "fraud", "returned", "cancelled", "survived"),
}


def guess(table: Table, source: Source, looks: Mapping[str, Look]) -> Table:
    """Return the table with everything filled in; what is named stays as it is. looks: of its first rows."""
    check_columns(table, source)
    table = _guess_roles(table, source, looks)
    counts = _count(table, source, looks)
    if not table.only:
        table = _guess_kinds(table, looks, counts, source.head)
    if not table.inputs:
        others = ", ".join(c for c in looks if c not in (table.time, table.edge, table.label)) or "none"
        raise InvalidValue("table: columns to learn from", others, "ids, categories or numbers: name some")
    if table.task == "auto":
        table = msgspec.structs.replace(table, task="classify" if counts.labels == 2 else "regress")
    if not table.last:
        table = msgspec.structs.replace(table, last=_last(table, source.head))
    return msgspec.structs.replace(table, only=True)


def _last(table: Table, head: pl.DataFrame) -> str:
    if table.task != "regress":
        return NO_LAST
    return find_last(head, table.label, table.edge, table.numbers) or NO_LAST


def check_columns(table: Table, source: Source) -> None:
    """Refuse columns that are not in the table, all at once."""
    columns = source.columns
    if missing := [c for c in table.used_columns() if c not in columns]:
        near = {c: get_close_matches(c.lower(), [k.lower() for k in columns], 1) for c in missing}
        meant = {c: next(k for k in columns if k.lower() == match[0]) for c, match in near.items() if match}
        hint = "".join(f"; {c} may mean {found}" for c, found in meant.items())
        raise InvalidValue("table: column", ", ".join(missing), f"one of {', '.join(columns)}{hint}")


def _guess_roles(table: Table, source: Source, looks: Mapping[str, Look]) -> Table:
    rules: dict[str, Callable[[], list[str]]] = {
        "time": lambda: _times(source.head, looks, free()),
        "label": lambda: _named_labels(looks, free()),
        "edge": lambda: _edges(source, looks, free()),
    }
    found: dict[str, str] = {role: getattr(table, role) for role in rules}
    tied: dict[str, list[str]] = {}

    def free() -> list[str]:
        """The columns that may still be anything."""
        return [c for c in looks if c not in (*found.values(), *table.inputs)]

    def decide(role: str, candidates: list[str]) -> None:
        if len(candidates) == 1:
            found[role] = candidates[0]
        tied[role] = candidates

    for role, candidates in rules.items():
        if not found[role]:
            decide(role, candidates())
    if not found["label"] and not tied["label"]:
        if unfit := [c for c in free() if c.lower() in _LABELS and looks[c].kind == "text"]:
            allowed = "two different values to classify, or numbers to regress; or another column with --label"
            raise InvalidValue(f"table: label {unfit[0]}", f"{looks[unfit[0]].distinct} different texts", allowed)
        decide("label", _other_labels(looks, free()))
    if unknown := [role for role, column in found.items() if not column]:
        reasons = [f"{r}: {' or '.join(tied[r]) if tied[r] else 'no column looks like it'}" for r in unknown]
        named = " and ".join(f"--{role}" for role in unknown)
        raise InvalidValue(
            f"table: {source.name}", "; ".join(reasons), f"name the column with {named}; there are {', '.join(looks)}"
        )
    return msgspec.structs.replace(table, **found)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()))


def _best(scores: Mapping[str, float]) -> list[str]:
    """The columns with the highest score above 0: several, if they are equally good."""
    top = max(scores.values(), default=0)
    return [column for column, score in scores.items() if score == top > 0]


def _times(head: pl.DataFrame, looks: Mapping[str, Look], free: list[str]) -> list[str]:
    def score(column: str) -> float:
        look, words = looks[column], _words(column)
        if look.kind == "time":
            return 4 + bool(words & (_TIMES | _PERIODS)) - 2 * bool(words & {"birth", "born"})
        if look.kind not in ("whole", "number"):
            return 0
        if words & _TIMES:
            return 2
        return float(bool(words & _PERIODS) and head[column].cast(pl.Float64, strict=False).drop_nulls().is_sorted())

    return _best({column: score(column) for column in free})


def _edges(source: Source, looks: Mapping[str, Look], free: list[str]) -> list[str]:
    few = [
        c
        for c in free
        if looks[c].kind in DISCRETE
        # The first rows of a large table may all be of one place.
        and (2 if source.whole else 1) <= looks[c].distinct <= min(MAX_EDGES, len(source.head) / _ROWS_PER_EDGE)
    ]
    exact = [c for c in few if c.lower() in _EDGES]
    named = exact or [c for c in few if _words(c) & _EDGES]
    return named or [c for c in few if looks[c].kind == "text" and looks[c].distinct > 2]


def _named_labels(looks: Mapping[str, Look], free: list[str]) -> list[str]:
    usable = [c for c in free if looks[c].kind in NUMERIC or looks[c].classes == 2]
    return [c for c in usable if c.lower() in _LABELS] or [c for c in usable if _words(c) & _LABELS]


def _other_labels(looks: Mapping[str, Look], free: list[str]) -> list[str]:
    two = [c for c in free if looks[c].kind in DISCRETE and looks[c].classes == 2]
    return two or [c for c in free if looks[c].kind in ("whole", "number")][-1:]


class _Counts(NamedTuple):
    """What has to be counted. recurring: columns whose values come twice on average, so that there is something to
    learn of each. labels: different ones."""

    recurring: set[str]
    labels: int


def _count(table: Table, source: Source, looks: Mapping[str, Look]) -> _Counts:
    """Count in the first rows, and in all of them where the first may mislead."""
    inputs = [c for c, look in looks.items() if c not in table.used_columns() and look.kind in DISCRETE]
    often = {c for c in inputs if looks[c].distinct <= len(source.head) / 2}
    rare = [c for c in inputs if c not in often and not source.whole]
    label = looks[table.label]
    plan = [pl.col(c).approx_n_unique() for c in rare]
    if label.classes <= 2:
        parsed = parse_label(pl.col(table.label), source.head.schema[table.label], label)
        plan.append(parsed.drop_nulls().n_unique().alias(table.label))
    if not plan:
        return _Counts(often, label.classes)
    rows, *found = source.collect(source.scan.select(pl.len().alias("#"), *plan)).row(0)
    by_column = dict(zip([*rare, table.label], found, strict=False))
    often |= {c for c in rare if by_column[c] <= rows / 2}
    return _Counts(often, by_column.get(table.label, label.classes))


def _is_quantity(column: str, look: Look, head: pl.DataFrame) -> bool:
    """Whether whole numbers count something: most values of a short range occur, and no word says that they are ids."""
    if look.distinct > MAX_QUANTITIES or _words(column) & _IDS:
        return False
    values = head[column].cast(pl.Float64, strict=False).drop_nulls()
    low, high = values.min(), values.max()
    if not isinstance(low, float) or not isinstance(high, float):
        return False
    return look.distinct >= _DENSE * (high - low + 1)


def _guess_kinds(table: Table, looks: Mapping[str, Look], counts: _Counts, head: pl.DataFrame) -> Table:
    kinds: dict[str, list[str]] = {"ids": [], "categories": [], "numbers": []}
    for column, look in looks.items():
        if column in table.used_columns():
            continue
        if look.stray is not None:
            allowed = f"numbers only; or name its kind: --number, --category or --id {column}"
            raise InvalidValue(f"table: column {column}", f"{look.stray!r} among numbers", allowed)
        if look.kind in ("number", "vector"):
            kinds["numbers"].append(column)
        elif look.kind in DISCRETE and 1 < look.distinct <= MAX_CATEGORIES and column in counts.recurring:
            kinds["categories"].append(column)
        elif look.kind == "whole" and column in counts.recurring and _is_quantity(column, look, head):
            kinds["numbers"].append(column)
        elif look.distinct > MAX_CATEGORIES and column in counts.recurring:
            kinds["ids"].append(column)
    filled: dict[str, Any] = {kind: (*getattr(table, kind), *columns) for kind, columns in kinds.items()}
    return msgspec.structs.replace(table, **filled)
