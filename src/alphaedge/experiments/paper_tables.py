"""The paper's tables 1 to 3, the same methods on many edges, and the bytes that they transfer."""

from typing import Final

from rich.filesize import decimal

from alphaedge.data.movielens import NOISY_EDGE
from alphaedge.experiments.equal_bytes import equal_bytes
from alphaedge.experiments.paper_scores import TABLE1, TABLE2, TABLE3
from alphaedge.experiments.plan import (
    ALL_METHODS,
    DIFFERENT_START_METHODS,
    FAULTY_SHARE,
    MAIN_METHODS,
    MANY_EDGES,
    UNREACHABLE_METHODS,
    Plan,
)
from alphaedge.experiments.score_table import (
    HOW_TO_READ,
    Footnotes,
    Lookup,
    MethodScores,
    format_entry,
    format_score,
    score_table,
    scores_on,
    title,
    verdict,
    with_footnotes,
)
from alphaedge.experiments.scores import cell_score
from alphaedge.report.page import Block, Grid, Heading, Text
from alphaedge.report.styles import NO_NUMBER
from alphaedge.scoring import LEVEL_MARGIN, mean, score_of_runs

REFERENCES: Final = ("prior", "persistence", "noagg", "alphaedge", "pooled")


def table1(plan: Plan, get: Lookup) -> list[Block]:
    """Compare all methods on all data sets."""
    columns = {d: scores_on(plan, get, d, plan.table_methods) for d in plan.data}
    judged = verdict(columns, -LEVEL_MARGIN)
    return [
        Heading("Table 1: all methods"),
        Text(HOW_TO_READ),
        *score_table(columns, plan.table_methods, TABLE1),
        Text(f"The paper's claim: AlphaEdge is best, or level with the best, on every data set. {judged}"),
        *(equal_bytes(plan, get, plan.table_methods) if plan.rivals else ()),
        *_references(plan, get),
        *_change_model(plan, get),
        *_after_first_quarter(plan, get),
        *_other_scores(plan, get),
        *_different_starts(plan, get),
        *_noisy_edge(plan, get),
    ]


def _references(plan: Plan, get: Lookup) -> list[Block]:
    columns = {title(d): scores_on(plan, get, d, REFERENCES) for d in plan.data}
    if "airquality" in plan.data:
        plain = scores_on(plan, get, "airquality", ("prior", "persistence"))
        change = scores_on(plan, get, "airquality", ("pooled", "noagg", "alphaedge"), "change")
        both = MethodScores(plain.scores | change.scores, plain.reasons | change.reasons)
        columns["AirQuality, change model"] = both
    body = [[title(m), *(format_score(column.scores.get(m)) for column in columns.values())] for m in REFERENCES]
    return [
        Heading("Baselines and the upper reference", 3),
        Grid(["", *columns], body),
        Text(
            "Prior: the running mean of the labels (for classification: of the item's labels). Persistence: the last "
            "measured value. Pooled: one model trained on the data of all edges, which may not leave their regions."
        ),
    ]


def _change_model(plan: Plan, get: Lookup) -> list[Block]:
    if "airquality" not in plan.data:
        return []
    column = scores_on(plan, get, "airquality", ALL_METHODS, "change")
    last, ours = cell_score(get(plan.table_cell("airquality", "persistence"))), column.scores.get("alphaedge")
    compared = "There are no cells to compare with persistence."
    if last is not None and ours is not None:
        above = "above" if ours.mean > last.mean else "**not** above"
        compared = f"AlphaEdge is {above} persistence ({ours.mean:.4f} against {last.mean:.4f})."
    return [
        Heading("AirQuality with the change model", 3),
        *score_table({"airquality": column}, ALL_METHODS),
        Text(compared),
    ]


def _after_first_quarter(plan: Plan, get: Lookup) -> list[Block]:
    columns = {}
    for data in plan.data:
        results = {m: get(plan.table_cell(data, m)) for m in plan.table_methods}
        late = {m: score_of_runs(r.late) for m, r in results.items() if r is not None}
        columns[data] = MethodScores({m: s for m, s in late.items() if s is not None})
    return [
        Heading("Scores after the first quarter", 3),
        Text("The same runs, scored on the last three quarters of the batches. No setting was chosen on those."),
        *score_table(columns, plan.table_methods),
    ]


def _other_scores(plan: Plan, get: Lookup) -> list[Block]:
    """Show scores over all events of an edge, since the scores of small batches are noisy; and losses."""
    body = []
    for method in plan.table_methods:
        results = [get(plan.table_cell(data, method)) for data in plan.data]
        row = [NO_NUMBER if r is None else f"{_format_mean(r.pooled)} / {_format_mean(r.losses)}" for r in results]
        body.append([title(method), *row])
    return [
        Heading("Scores over all events, and losses", 3),
        Text(
            "AUC (1-SMAPE for AirQuality) over all events of an edge at once, not batch by batch / log loss (mean "
            "squared error for AirQuality)."
        ),
        Grid(["", *(title(d) for d in plan.data)], body),
    ]


def _format_mean(values: list[float | None]) -> str:
    middle = mean(values)
    return NO_NUMBER if middle is None else f"{middle:.4f}" if middle < 10 else f"{middle:,.0f}"


def _different_starts(plan: Plan, get: Lookup) -> list[Block]:
    methods = DIFFERENT_START_METHODS
    notes = Footnotes()
    shared = [scores_on(plan, get, data, methods) for data in plan.data]
    different = [scores_on(plan, get, data, methods, initial="different") for data in plan.data]

    def entry(column: MethodScores, method: str) -> str:
        score = column.scores.get(method)
        return notes.mark(column.reasons.get(method)) if score is None else f"{score.mean:.4f}"

    body = [
        [title(m), *(f"{entry(one, m)} → {entry(two, m)}" for one, two in zip(shared, different, strict=True))]
        for m in methods
    ]
    grid = Grid(["shared start → different starts", *(title(d) for d in plan.data)], body)
    return [Heading("Edges that start from different models", 3), *with_footnotes(grid, notes)]


def _noisy_edge(plan: Plan, get: Lookup) -> list[Block]:
    """Compare the scores on MovieLens with and without the edge whose labels the paper flips."""
    if "movielens" not in plan.data:
        return []
    whole, rest = MethodScores(), MethodScores()
    for method in plan.table_methods:
        result = get(plan.table_cell("movielens", method))
        if result is None or not result.per_edge:
            continue
        others = [[s for e, s in enumerate(run) if e != NOISY_EDGE] for run in result.per_edge]
        for column, score in ((whole, cell_score(result)), (rest, score_of_runs([mean(run) for run in others]))):
            if score is not None:
                column.scores[method] = score
    notes = Footnotes()
    body = [[title(m), *(format_entry(column, m, notes) for column in (whole, rest))] for m in plan.table_methods]
    return [
        Heading("MovieLens with and without its noisy edge", 3),
        Text(f"10% of the labels of edge {NOISY_EDGE} are flipped, and it is scored on the flipped labels."),
        Grid(["", "all edges", f"without edge {NOISY_EDGE}"], body),
    ]


def table2(plan: Plan, get: Lookup) -> list[Block]:
    """Compare methods when every edge is unreachable a quarter of the time."""
    columns = {d: scores_on(plan, get, d, UNREACHABLE_METHODS, drop=FAULTY_SHARE) for d in plan.data}
    lost = []
    for data, column in columns.items():
        calm = scores_on(plan, get, data, ["alphaedge"])
        if "alphaedge" in column.scores and "alphaedge" in calm.scores:
            lost.append(f"{title(data)} {calm.scores['alphaedge'].mean - column.scores['alphaedge'].mean:+.4f}")
    losses = f" What AlphaEdge loses against Table 1: {', '.join(lost)}." if lost else ""
    judged = verdict(columns, -LEVEL_MARGIN)
    return [
        Heading("Table 2: every edge unreachable 25% of the time"),
        Text(HOW_TO_READ),
        *score_table(columns, UNREACHABLE_METHODS, TABLE2),
        Text(f"The paper's claim: AlphaEdge stays best, or level with the best. {judged}{losses}"),
    ]


def table3(plan: Plan, get: Lookup) -> list[Block]:
    """Compare methods when a quarter of the edges are hostile."""
    columns = {d: scores_on(plan, get, d, plan.table_methods, adversaries=FAULTY_SHARE) for d in plan.data}
    judged = verdict(columns, 0.0)
    return [
        Heading("Table 3: 25% of the edges hostile"),
        Text(
            "Hostile edges learn from flipped labels and otherwise follow the protocol. Scores are those of the honest "
            "edges."
        ),
        *score_table(columns, plan.table_methods, TABLE3),
        Text(f"The paper's claim: AlphaEdge is best, or equal to RandPS where there are few edges. {judged}"),
        *(equal_bytes(plan, get, plan.table_methods, adversaries=FAULTY_SHARE) if plan.rivals else ()),
    ]


def many_edges(plan: Plan, get: Lookup) -> list[Block]:
    """Compare methods on the two retail data sets with more edges than an edge can have neighbours."""
    variants = [MANY_EDGES[d] for d in plan.data if d in MANY_EDGES]
    if not variants:
        return []
    columns: dict[str, MethodScores] = {}
    verdicts = []
    for share, setting in ((0.0, "all honest"), (FAULTY_SHARE, "25% hostile")):
        some = {data: scores_on(plan, get, data, MAIN_METHODS, adversaries=share) for data in variants}
        columns |= {f"{title(data)}, {setting}": column for data, column in some.items()}
        verdicts.append(f"{setting.capitalize()}: {verdict(some, -LEVEL_MARGIN)}")
    notes = Footnotes()
    body = [[title(m), *(format_entry(column, m, notes) for column in columns.values())] for m in MAIN_METHODS]
    return [
        Heading("Many edges"),
        Text(
            "The same data with one edge per store or area, so that there are more edges than an edge can have "
            "neighbours. The paper has no such table."
        ),
        *with_footnotes(Grid(["", *columns], body), notes),
        Text(f"Does the claim of Table 1 hold here? {' '.join(verdicts)}"),
    ]


def communication(plan: Plan, get: Lookup) -> list[Block]:
    """Show the bytes that an edge pulls at one aggregation, for data sets with ids."""
    body = []
    for data in plan.data:
        result = get(plan.table_cell(data, "alphaedge"))
        if result is None or not result.mixes or result.bytes[0] == result.bytes[2]:  # equal: the model has no id table
            continue
        each = [b / result.mixes for b in result.bytes]
        body.append([title(data), *(decimal(round(b)) for b in each), f"{each[2] / each[0]:.0%}"])
    if not body:
        return []
    columns = ["", "whole models", "common ids", "changed ids", "changed / whole"]
    return [
        Heading("Communication"),
        Text("Bytes that an edge pulls at one aggregation with AlphaEdge, from at most K = 5 neighbours."),
        Grid(columns, body),
    ]
