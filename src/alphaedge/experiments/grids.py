"""Tables of scores: a row a method, a column a data set, the paper's numbers beside."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from alphaedge.experiments.cell import Cell, CellResult
from alphaedge.experiments.compare import Footnotes, Row, average, best_rival, written
from alphaedge.experiments.plan import Plan
from alphaedge.experiments.published import STANDS_FOR
from alphaedge.report.figures import LOOKS
from alphaedge.report.page import Block, Grid, Text

Lookup = Callable[[Cell], CellResult | None]

TITLES: Final[Mapping[str, str]] = {
    "completejourney": "Complete Journey",
    "completejourney-stores": "Complete Journey, 112 stores",
    "tafeng": "Ta-Feng",
    "tafeng-areas": "Ta-Feng, 8 areas",
    "movielens": "MovieLens-1M",
    "airquality": "AirQuality",
    "prior": "Prior",
    "persistence": "Persistence",
    "pooled": "Pooled",
}
READ: Final = (
    "Mean ± half of the 95% interval over the runs; in brackets the paper's number, where it has one (its data sets A "
    "and B are private: other data stand in their places). **Bold**: the best of a column. ★: AlphaEdge's difference "
    "to the best rival, run by run, is clear of zero, whichever way."
)


def title(name: str) -> str:
    """How a data set or a method is called on the page."""
    return LOOKS[name].name if name in LOOKS else TITLES[name]


def label(data: str) -> str:
    """A data set's title, with the private one of the paper that it stands for."""
    stands = STANDS_FOR.get(data)
    return f"{title(data)} (for {stands})" if stands is not None and stands.startswith("Dataset") else title(data)


def row_of(
    plan: Plan, get: Lookup, data: str, methods: Sequence[str], model: str | None = None, **changes: object
) -> Row:
    """Some methods on one data set in one variation of a table."""
    row = Row()
    for method in methods:
        row.add(method, get(plan.table_cell(data, method, model, **changes)))
    return row


def scores_grid(
    rows: Mapping[str, Row], methods: Sequence[str], paper: Mapping[str, Mapping[str, float]] | None = None
) -> list[Block]:
    """A table of scores by data set, with their average, and below it why cells are empty."""
    paper = paper or {}
    columns = {label(d): (row, paper.get(d, {})) for d, row in rows.items()}
    if len(rows) > 1:
        whole = Row({m: s for m in methods if (s := average([r.scores.get(m) for r in rows.values()])) is not None})
        columns["Average"] = (whole, paper.get("average", {}) if len(rows) == 4 else {})
    notes = Footnotes()
    body = [[title(m), *(written(row, m, notes, theirs.get(m)) for row, theirs in columns.values())] for m in methods]
    return with_notes(Grid(["", *columns], body), notes)


def with_notes(grid: Grid, notes: Footnotes) -> list[Block]:
    """A table and, if there are any, its footnotes."""
    return [grid, Text(notes.text())] if notes.numbers else [grid]


def verdict(rows: Mapping[str, Row], least: float) -> str:
    """Whether AlphaEdge's lead over the best rival is at least ``least`` on every data set, and where not."""
    parts = []
    for method in ("alphaedge", "alphaedge-paper"):
        gaps = {}
        for data, row in rows.items():
            rival = best_rival(row.scores, method)
            if method in row.scores and rival is not None:
                gaps[data] = (row.scores[method].mean - row.scores[rival].mean, rival)
        if not gaps:
            parts.append(f"With {title(method)} nothing can be said: no cells.")
            continue
        behind = [f"{title(d)} ({gap:+.4f} to {title(rival)})" for d, (gap, rival) in gaps.items() if gap < least]
        where = "holds" if not behind else "does not hold on " + ", ".join(behind)
        missing = [title(d) for d in rows if d not in gaps]
        rest = f" (nothing can be said of {', '.join(missing)})" if missing else ""
        parts.append(f"With {title(method)} this **{where}** here{rest}.")
    return " ".join(parts)
