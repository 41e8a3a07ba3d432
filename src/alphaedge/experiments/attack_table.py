"""The table of attacks: every attack by every method, on every data set, and whether the goals for them are reached."""

from typing import Final

from alphaedge.attacks.catalog import ATTACKS
from alphaedge.experiments.equal_bytes import format_bytes
from alphaedge.experiments.plan import ATTACK_METHODS, Plan
from alphaedge.experiments.score_table import Footnotes, Lookup, MethodScores, format_entry, title, with_footnotes
from alphaedge.experiments.scores import difference
from alphaedge.report.charts import add_legend, draw_dots, make_charts
from alphaedge.report.page import Block, Grid, Heading, Picture, Text
from alphaedge.report.styles import NO_NUMBER
from alphaedge.scoring import Score

NONE: Final = "all honest"
DRAWN: Final = ("fedweight", "randps", "alphaedge-paper", "alphaedge-trusting", "alphaedge")
LOWEST: Final = -0.05  # gap to learning alone that the picture shows
ALONE_MARGIN: Final = 0.002  # that a fleet under attack may lose against learning alone
TRIAL_MARGIN: Final = 0.0005  # that the trial may cost

Columns = dict[str, MethodScores]  # by attack, NONE first


def attack_blocks(plan: Plan, get: Lookup) -> list[Block]:
    """Make a picture of all data sets, a table for each, and the goals."""
    scores = {data: _scores(plan, get, data) for data in plan.data}
    figure, charts = make_charts(len(scores), "attacks", height=4.6)
    x = "score minus learning alone"
    for axes, (data, columns) in zip(charts, scores.items(), strict=True):
        draw_dots(axes, _gaps(columns), rows=list(columns), title=title(data), x=x, low=LOWEST)
    add_legend(figure, charts)
    blocks: list[Block] = [
        Heading("Attacks: 25% of the edges hostile, by what they do"),
        Text(
            "Scores are those of the honest edges. Hostile edges follow the protocol but for the attack, which "
            "`alphaedge simulate --attack NAME --adversaries 0.25` runs alone. AlphaEdge (trusting) neither puts peers "
            "on trial nor resets a useless mixed model. Share: the hostile edges' part of AlphaEdge's mixes, over "
            f"the whole run. The picture leaves out what falls more than {-LOWEST} below learning alone."
        ),
        Picture("attacks", "Each method's score minus learning alone, by attack, one chart per data set", figure),
    ]
    for data, columns in scores.items():
        blocks += [Heading(title(data), 3), *_table(plan, get, data, columns)]
        if plan.rivals:
            blocks += _rivals_table(plan, get, data, columns)
    return blocks + _goals(scores)


def _scores(plan: Plan, get: Lookup, data: str) -> Columns:
    found = {NONE if attack is None else attack: MethodScores() for attack in (None, *ATTACKS)}
    for attack, column in found.items():
        for method in (*ATTACK_METHODS, *plan.literature):
            column.add(method, get(plan.attack_cell(data, method, None if attack == NONE else attack)))
    return found


def _table(plan: Plan, get: Lookup, data: str, columns: Columns) -> list[Block]:
    notes = Footnotes()
    body = []
    for attack, column in columns.items():
        ours = None if attack == NONE else get(plan.attack_cell(data, "alphaedge", attack))
        share = NO_NUMBER if ours is None or ours.hostile_share is None else f"{ours.hostile_share:.4f}"
        body.append([attack, *(format_entry(column, m, notes) for m in ATTACK_METHODS), share])
    return with_footnotes(Grid(["", *(title(m) for m in ATTACK_METHODS), "share"], body), notes)


def _rivals_table(plan: Plan, get: Lookup, data: str, columns: Columns) -> list[Block]:
    """The rivals from the literature beside learning alone and AlphaEdge, and what each pulls."""
    methods, notes = ("noagg", *plan.literature, "alphaedge"), Footnotes()
    body = [[attack, *(format_entry(column, m, notes) for m in methods)] for attack, column in columns.items()]
    body.append(["bytes", *(format_bytes(get(plan.attack_cell(data, m, None))) for m in methods)])
    about = f"{title(data)}, rivals from the literature. Bytes: what an edge pulls over a run with all honest."
    return [Text(about), *with_footnotes(Grid(["", *(title(m) for m in methods)], body), notes)]


def _gaps(columns: Columns) -> dict[str, dict[str, float]]:
    """By method and attack, the mean score minus that of learning alone."""
    return {
        method: {
            attack: column.scores[method].mean - column.scores["noagg"].mean
            for attack, column in columns.items()
            if method in column.scores and "noagg" in column.scores
        }
        for method in DRAWN
    }


def _goals(scores: dict[str, Columns]) -> list[Block]:
    """One row per data set and goal, with the paired difference that decides."""
    body = []
    for data, columns in scores.items():
        gaps = {a: gap for a, c in columns.items() if a != NONE and (gap := _gap(c, "noagg")) is not None}
        if gaps:
            worst = min(gaps, key=lambda attack: gaps[attack].mean)
            name = f"{title(data)}: under every attack at least NoAgg - {ALONE_MARGIN}; the worst is {worst}"
            body.append(_row(name, gaps[worst], gaps[worst].mean >= -ALONE_MARGIN))
        for attack in ("flipped-labels", NONE):
            gap = _gap(columns[attack], "alphaedge-trusting")
            if gap is not None:
                name = f"{title(data)}, {attack}: not wholly below AlphaEdge (trusting) - {TRIAL_MARGIN}"
                body.append(_row(name, gap, gap.mean + (gap.ci95 or 0.0) >= -TRIAL_MARGIN))
    return [Heading("Goals under attack", 3), Grid(["goal", "AlphaEdge's lead", "reached"], body)] if body else []


def _gap(column: MethodScores, other: str) -> Score | None:
    ours, theirs = column.scores.get("alphaedge"), column.scores.get(other)
    return None if ours is None or theirs is None else difference(ours, theirs)


def _row(goal: str, gap: Score, reached: bool) -> list[str]:
    interval = "" if gap.ci95 is None else f" ± {gap.ci95:.4f}"
    return [goal, f"{gap.mean:+.4f}{interval}", "yes" if reached else "**no**"]
