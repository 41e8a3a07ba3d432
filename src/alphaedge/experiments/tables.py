"""The paper's tables 1 to 3, with what it reports beside, and the table of bytes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from alphaedge.experiments.cell import Cell, Found
from alphaedge.experiments.compare import LEVEL, Score, average, best_rival, of_runs, plain, score, written
from alphaedge.experiments.plan import ALL, APART, DOWN, SHARE, Plan
from alphaedge.experiments.published import STANDS_FOR, TABLE1, TABLE2, TABLE3
from alphaedge.metrics import mean
from alphaedge.report.figures import LOOKS
from alphaedge.report.html import NONE, human
from alphaedge.report.page import Block, Grid, Heading, Text

Lookup = Callable[[Cell], Found | None]

TITLES: Final[Mapping[str, str]] = {
    "completejourney": "Complete Journey",
    "tafeng": "Ta-Feng",
    "movielens": "MovieLens-1M",
    "airquality": "AirQuality",
    "prior": "Prior",
    "persistence": "Persistence",
    "pooled": "Pooled",
}


def title(name: str) -> str:
    """How a data set or a method is called on the page."""
    return LOOKS[name].name if name in LOOKS else TITLES[name]


def scores_of(plan: Plan, get: Lookup, data: str, methods: Sequence[str], **changes: object) -> dict[str, Score]:
    """The scores of some methods in one row of a table."""
    model = changes.pop("model", None)
    found = {m: score(get(plan.table_cell(data, m, str(model) if model else None, **changes))) for m in methods}
    return {m: s for m, s in found.items() if s is not None}


def _row(label: str, scores: Mapping[str, Score], methods: Sequence[str], paper: Mapping[str, float]) -> list[str]:
    return [label, *(written(scores, m, paper.get(m)) for m in methods)]


def _averages(rows: Mapping[str, Mapping[str, Score]], methods: Sequence[str]) -> dict[str, Score]:
    found = {m: average([row.get(m) for row in rows.values()]) for m in methods}
    return {m: s for m, s in found.items() if s is not None}


def _label(data: str) -> str:
    stands = STANDS_FOR[data]
    return title(data) if stands in ("Movielens-1M", "AirQuality") else f"{title(data)} (for {stands})"


def _grid(
    rows: Mapping[str, Mapping[str, Score]], methods: Sequence[str], paper: Mapping[str, Mapping[str, float]]
) -> Grid:
    body = [_row(_label(d), s, methods, paper.get(d, {})) for d, s in rows.items()]
    if len(rows) > 1:
        body.append(_row("Average", _averages(rows, methods), methods, paper["average"] if len(rows) == 4 else {}))
    return Grid(["", *(title(m) for m in methods)], body)


READ: Final = (
    "Mean ± half of the 95% interval over the runs; in brackets the paper's number, where it has one (its data sets A "
    "and B are private: other data stand in their places). **Bold**: the best method. ★: AlphaEdge's difference "
    "to the best rival, run by run, is clear of zero, whichever way."
)


def table1(plan: Plan, get: Lookup) -> list[Block]:
    """All methods on all data sets."""
    rows = {d: scores_of(plan, get, d, ALL) for d in plan.data}
    blocks: list[Block] = [Heading("Table 1: all methods"), Text(READ), _grid(rows, ALL, TABLE1)]
    blocks.append(
        Text(f"The paper: AlphaEdge is best, or level with the best, on every data set. {_verdict(rows, -LEVEL)}")
    )
    blocks.append(Heading("What any method must beat, and the upper reference", 3))
    base = [_reference_row(title(d), scores_of(plan, get, d, REFERENCES)) for d in plan.data]
    if "airquality" in plan.data:
        scores = scores_of(plan, get, "airquality", ("prior", "persistence"))
        scores |= scores_of(plan, get, "airquality", ("pooled", "noagg", "alphaedge"), model="change")
        base.append(_reference_row("AirQuality, model of the change", scores))
    blocks.append(Grid(["", *(title(m) for m in REFERENCES)], base))
    blocks.append(
        Text(
            "Prior: what has been usual so far (to classify: the item's own rate). Persistence: the last value. "
            "Pooled: one model that sees everybody's data, which no region may."
        )
    )
    if "airquality" in plan.data:
        scores = scores_of(plan, get, "airquality", ALL, model="change")
        blocks += [
            Heading("AirQuality with a model of the change", 3),
            Grid(["", *(title(m) for m in ALL)], [_row("AirQuality", scores, ALL, {})]),
            Text(_above_persistence(plan, get, scores)),
        ]
    blocks += _after_the_first_quarter(plan, get)
    blocks += _different(plan, get)
    if "movielens" in plan.data:
        blocks.append(_without_noise(plan, get))
    return blocks


REFERENCES: Final = ("prior", "persistence", "noagg", "alphaedge", "pooled")


def _reference_row(label: str, scores: Mapping[str, Score]) -> list[str]:
    return [label, *(plain(scores.get(m)) for m in REFERENCES)]


def _verdict(rows: Mapping[str, Mapping[str, Score]], least: float) -> str:
    """Whether AlphaEdge's lead over the best rival is at least ``least`` on every data set, and where not."""
    parts = []
    for method in ("alphaedge", "alphaedge-paper"):
        gaps = {}
        for data, scores in rows.items():
            rival = best_rival(scores, method)
            if method in scores and rival is not None:
                gaps[data] = (scores[method].mean - scores[rival].mean, rival)
        behind = [f"{title(d)} ({gap:+.4f} to {title(rival)})" for d, (gap, rival) in gaps.items() if gap < least]
        open_ = [title(d) for d in rows if d not in gaps]
        if not gaps:
            parts.append(f"With {title(method)} nothing can be said: no cells.")
            continue
        where = "holds" if not behind else "does not hold on " + ", ".join(behind)
        rest = f" (nothing can be said of {', '.join(open_)})" if open_ else ""
        parts.append(f"With {title(method)} this **{where}** here{rest}.")
    return " ".join(parts)


def _above_persistence(plan: Plan, get: Lookup, scores: Mapping[str, Score]) -> str:
    last = score(get(plan.table_cell("airquality", "persistence")))
    if last is None or "alphaedge" not in scores:
        return "Not finished."
    above = "above" if scores["alphaedge"].mean > last.mean else "**not** above"
    return f"AlphaEdge is {above} persistence ({scores['alphaedge'].mean:.4f} against {last.mean:.4f})."


def _after_the_first_quarter(plan: Plan, get: Lookup) -> list[Block]:
    """The same cells scored behind the part on which settings were chosen."""
    rows = {}
    for data in plan.data:
        found = {m: get(plan.table_cell(data, m)) for m in ALL}
        late = {m: of_runs([s for s in f.late if s is not None]) for m, f in found.items() if f is not None}
        rows[data] = {m: s for m, s in late.items() if s is not None}
    return [
        Heading("Scored behind the first quarter", 3),
        Text("The same runs, scored on the last three quarters of the batches: no setting was chosen on those."),
        _grid(rows, ALL, {"average": {}}),
    ]


def _different(plan: Plan, get: Lookup) -> list[Block]:
    body = []
    for data in plan.data:
        shared = scores_of(plan, get, data, APART)
        apart = scores_of(plan, get, data, APART, initial="different")
        body.append([title(data), *(f"{_short(shared.get(m))} → {_short(apart.get(m))}" for m in APART)])
    return [
        Heading("Edges that start from different models", 3),
        Grid(["shared start → different starts", *(title(m) for m in APART)], body),
    ]


def _short(found: Score | None) -> str:
    return NONE if found is None else f"{found.mean:.4f}"


def _without_noise(plan: Plan, get: Lookup) -> Text:
    parts = []
    for method in ("noagg", "alphaedge"):
        found = get(plan.table_cell("movielens", method))
        if found is not None and found.per_edge:
            rest = [mean([s for s in run[1:] if s is not None]) for run in found.per_edge]
            whole = mean([s for s in found.per_seed if s is not None])
            parts.append(f"{title(method)} {whole:.4f} with it, {mean([r for r in rest if r is not None]):.4f} without")
    return Text("MovieLens's edge 0 has 10% of its labels flipped and is scored on them: " + "; ".join(parts) + ".")


def table2(plan: Plan, get: Lookup) -> list[Block]:
    """Every edge unreachable a quarter of the time."""
    rows = {d: scores_of(plan, get, d, DOWN, drop=SHARE) for d in plan.data}
    lost = []
    for data, scores in rows.items():
        calm = scores_of(plan, get, data, ["alphaedge"])
        if "alphaedge" in scores and "alphaedge" in calm:
            lost.append(f"{title(data)} {calm['alphaedge'].mean - scores['alphaedge'].mean:+.4f}")
    losses = f" What AlphaEdge loses against Table 1: {', '.join(lost)}." if lost else ""
    return [
        Heading("Table 2: every edge unreachable 25% of the time"),
        Text(READ),
        _grid(rows, DOWN, TABLE2),
        Text(f"The paper: AlphaEdge stays best, or level with the best. {_verdict(rows, -LEVEL)}{losses}"),
    ]


def table3(plan: Plan, get: Lookup) -> list[Block]:
    """A quarter of the edges hostile."""
    rows = {d: scores_of(plan, get, d, ALL, adversaries=SHARE) for d in plan.data}
    return [
        Heading("Table 3: 25% of the edges hostile"),
        Text(
            "Hostile edges learn from flipped labels and otherwise follow the protocol; scores are of the honest ones."
        ),
        _grid(rows, ALL, TABLE3),
        Text(f"The paper: AlphaEdge is best, or the same as RandPS with few edges. {_verdict(rows, 0.0)}"),
    ]


def communication(plan: Plan, get: Lookup) -> list[Block]:
    """Bytes that an edge fetches at one aggregation."""
    body = []
    for data in plan.data:
        found = get(plan.table_cell(data, "alphaedge"))
        if data == "airquality" or found is None or not found.mixes:
            continue
        each = [b / found.mixes for b in found.bytes]
        body.append([title(data), *(human(b) for b in each), f"{each[2] / each[0]:.0%}"])
    if not body:
        return []
    columns = ["", "whole models", "common ids", "changed ids", "changed / whole"]
    return [
        Heading("Communication"),
        Text("Bytes that an edge fetches at one aggregation with AlphaEdge, K = 5 peers at most."),
        Grid(columns, body),
    ]
