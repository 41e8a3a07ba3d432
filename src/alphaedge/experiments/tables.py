"""The paper's tables 1 to 3, the same on many edges, and the table of bytes."""

from typing import Final

from alphaedge.data.movielens import NOISY_EDGE
from alphaedge.experiments.compare import LEVEL, Footnotes, Row, of_runs, plain, score, written
from alphaedge.experiments.grids import READ, Lookup, row_of, scores_grid, title, verdict, with_notes
from alphaedge.experiments.plan import ALL, APART, DOWN, MANY, SHARE, SOME, Plan
from alphaedge.experiments.published import TABLE1, TABLE2, TABLE3
from alphaedge.metrics import mean
from alphaedge.report.numbers import NONE, human
from alphaedge.report.page import Block, Grid, Heading, Text

REFERENCES: Final = ("prior", "persistence", "noagg", "alphaedge", "pooled")


def table1(plan: Plan, get: Lookup) -> list[Block]:
    """All methods on all data sets."""
    rows = {d: row_of(plan, get, d, ALL) for d in plan.data}
    return [
        Heading("Table 1: all methods"),
        Text(READ),
        *scores_grid(rows, ALL, TABLE1),
        Text(f"The paper: AlphaEdge is best, or level with the best, on every data set. {verdict(rows, -LEVEL)}"),
        *_references(plan, get),
        *_change(plan, get),
        *_after_the_first_quarter(plan, get),
        *_other_scores(plan, get),
        *_different(plan, get),
        *_without_noise(plan, get),
    ]


def _references(plan: Plan, get: Lookup) -> list[Block]:
    rows = {title(d): row_of(plan, get, d, REFERENCES) for d in plan.data}
    if "airquality" in plan.data:
        whole = row_of(plan, get, "airquality", ("prior", "persistence"))
        change = row_of(plan, get, "airquality", ("pooled", "noagg", "alphaedge"), "change")
        rows["AirQuality, model of the change"] = Row(whole.scores | change.scores, whole.reasons | change.reasons)
    body = [[title(m), *(plain(row.scores.get(m)) for row in rows.values())] for m in REFERENCES]
    return [
        Heading("What any method must beat, and the upper reference", 3),
        Grid(["", *rows], body),
        Text(
            "Prior: what has been usual so far (to classify: the item's own rate). Persistence: the last value. "
            "Pooled: one model that sees everybody's data, which no region may."
        ),
    ]


def _change(plan: Plan, get: Lookup) -> list[Block]:
    if "airquality" not in plan.data:
        return []
    row = row_of(plan, get, "airquality", ALL, "change")
    last, ours, said = score(get(plan.table_cell("airquality", "persistence"))), row.scores.get("alphaedge"), ""
    if last is not None and ours is not None:
        above = "above" if ours.mean > last.mean else "**not** above"
        said = f"AlphaEdge is {above} persistence ({ours.mean:.4f} against {last.mean:.4f})."
    return [
        Heading("AirQuality with a model of the change", 3),
        *scores_grid({"airquality": row}, ALL),
        Text(said or "Nothing can be said against persistence: no cells."),
    ]


def _after_the_first_quarter(plan: Plan, get: Lookup) -> list[Block]:
    """The same cells scored behind the part on which settings were chosen."""
    rows = {}
    for data in plan.data:
        found = {m: get(plan.table_cell(data, m)) for m in ALL}
        late = {m: of_runs(f.late) for m, f in found.items() if f is not None}
        rows[data] = Row({m: s for m, s in late.items() if s is not None})
    return [
        Heading("Scored behind the first quarter", 3),
        Text("The same runs, scored on the last three quarters of the batches: no setting was chosen on those."),
        *scores_grid(rows, ALL),
    ]


def _other_scores(plan: Plan, get: Lookup) -> list[Block]:
    """Scores of all of an edge's events at once, and losses: batch scores are noisy where batches are small."""
    body = []
    for method in ALL:
        found = [get(plan.table_cell(data, method)) for data in plan.data]
        body.append([title(method), *(NONE if f is None else f"{_mean(f.pooled)} / {_mean(f.losses)}" for f in found)])
    return [
        Heading("Scores of all events, and losses", 3),
        Text(
            "AUC (1-SMAPE for AirQuality) of all events of an edge at once instead of batch by batch / log loss (mean "
            "squared error for AirQuality)."
        ),
        Grid(["", *(title(d) for d in plan.data)], body),
    ]


def _mean(values: list[float | None]) -> str:
    found = mean([v for v in values if v is not None])
    return NONE if found is None else f"{found:.4f}" if found < 10 else f"{found:,.0f}"


def _different(plan: Plan, get: Lookup) -> list[Block]:
    notes = Footnotes()
    shared = [row_of(plan, get, data, APART) for data in plan.data]
    apart = [row_of(plan, get, data, APART, initial="different") for data in plan.data]
    body = [
        [
            title(m),
            *(f"{_short(one, m, notes)} → {_short(two, m, notes)}" for one, two in zip(shared, apart, strict=True)),
        ]
        for m in APART
    ]
    grid = Grid(["shared start → different starts", *(title(d) for d in plan.data)], body)
    return [Heading("Edges that start from different models", 3), *with_notes(grid, notes)]


def _short(row: Row, method: str, notes: Footnotes) -> str:
    return f"{row.scores[method].mean:.4f}" if method in row.scores else notes.mark(row.reasons.get(method))


def _without_noise(plan: Plan, get: Lookup) -> list[Block]:
    """MovieLens with and without the edge whose labels the paper flips."""
    if "movielens" not in plan.data:
        return []
    rows: dict[str, Row] = {"with it": Row(), "without": Row()}
    for method in ALL:
        found = get(plan.table_cell("movielens", method))
        if found is None or not found.per_edge:
            continue
        honest = [[s for e, s in enumerate(run) if e != NOISY_EDGE and s is not None] for run in found.per_edge]
        for head, score_ in (("with it", score(found)), ("without", of_runs([mean(run) for run in honest]))):
            if score_ is not None:
                rows[head].scores[method] = score_
    notes = Footnotes()
    body = [[title(m), *(written(row, m, notes) for row in rows.values())] for m in ALL]
    return [
        Heading("MovieLens with and without its noisy edge", 3),
        Text(f"Edge {NOISY_EDGE} has 10% of its labels flipped and is scored on them."),
        Grid(["", *rows], body),
    ]


def table2(plan: Plan, get: Lookup) -> list[Block]:
    """Every edge unreachable a quarter of the time."""
    rows = {d: row_of(plan, get, d, DOWN, drop=SHARE) for d in plan.data}
    lost = []
    for data, row in rows.items():
        calm = row_of(plan, get, data, ["alphaedge"])
        if "alphaedge" in row.scores and "alphaedge" in calm.scores:
            lost.append(f"{title(data)} {calm.scores['alphaedge'].mean - row.scores['alphaedge'].mean:+.4f}")
    losses = f" What AlphaEdge loses against Table 1: {', '.join(lost)}." if lost else ""
    return [
        Heading("Table 2: every edge unreachable 25% of the time"),
        Text(READ),
        *scores_grid(rows, DOWN, TABLE2),
        Text(f"The paper: AlphaEdge stays best, or level with the best. {verdict(rows, -LEVEL)}{losses}"),
    ]


def table3(plan: Plan, get: Lookup) -> list[Block]:
    """A quarter of the edges hostile."""
    rows = {d: row_of(plan, get, d, ALL, adversaries=SHARE) for d in plan.data}
    return [
        Heading("Table 3: 25% of the edges hostile"),
        Text(
            "Hostile edges learn from flipped labels and otherwise follow the protocol; scores are of the honest ones."
        ),
        *scores_grid(rows, ALL, TABLE3),
        Text(f"The paper: AlphaEdge is best, or the same as RandPS with few edges. {verdict(rows, 0.0)}"),
    ]


def many_edges(plan: Plan, get: Lookup) -> list[Block]:
    """The two stores cut into many edges, where peers must be chosen."""
    some = [MANY[d] for d in plan.data if d in MANY]
    if not some:
        return []
    columns: dict[str, Row] = {}
    verdicts = []
    for share, what in ((0.0, "all honest"), (SHARE, "25% hostile")):
        rows = {data: row_of(plan, get, data, SOME, adversaries=share) for data in some}
        columns |= {f"{title(data)}, {what}": row for data, row in rows.items()}
        verdicts.append(f"{what.capitalize()}: {verdict(rows, -LEVEL)}")
    notes = Footnotes()
    body = [[title(m), *(written(row, m, notes) for row in columns.values())] for m in SOME]
    return [
        Heading("Many edges"),
        Text(
            "The same data with an edge for each store or area: more edges than an edge can have peers. The paper has "
            "no such table."
        ),
        *with_notes(Grid(["", *columns], body), notes),
        Text(f"Is AlphaEdge best, or level with the best? {' '.join(verdicts)}"),
    ]


def communication(plan: Plan, get: Lookup) -> list[Block]:
    """Bytes that an edge fetches at one aggregation."""
    body = []
    for data in plan.data:
        found = get(plan.table_cell(data, "alphaedge"))
        if found is None or not found.mixes or found.bytes[0] == found.bytes[2]:  # all of it is dense: no ids
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
