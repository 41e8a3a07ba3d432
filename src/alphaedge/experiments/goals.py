"""The goals that were set for the method on public data, and whether it reaches them."""

from typing import Final

from alphaedge.experiments.plan import FAULTY_SHARE, Plan
from alphaedge.experiments.score_table import Lookup, scores_on, title
from alphaedge.experiments.scores import best_rival, cell_score
from alphaedge.report.page import Block, Grid, Heading, Text
from alphaedge.scoring import LEVEL_MARGIN

MOVIELENS_GOAL: Final = 0.719  # the paper's score


def goals(plan: Plan, get: Lookup) -> list[Block]:
    """Make a table with one row per goal: the goal, the gap to it, and whether it is reached."""
    rows: list[list[str]] = []
    for data in plan.data:
        calm, hostile = (
            scores_on(plan, get, data, plan.table_methods, adversaries=share).scores for share in (0.0, FAULTY_SHARE)
        )
        ours = calm.get("alphaedge")
        if ours is None:
            continue
        if "noagg" in calm:
            rows.append(_row(f"{title(data)}: above NoAgg", ours.mean - calm["noagg"].mean, 0.0))
        rival = best_rival({m: s for m, s in calm.items() if m != "noagg"})
        if rival is not None:
            gap = ours.mean - calm[rival].mean
            rows.append(_row(f"{title(data)}: level with {title(rival)}, the best rival", gap, -LEVEL_MARGIN))
        rival = best_rival(hostile)
        if rival is not None and "alphaedge" in hostile:
            gap = hostile["alphaedge"].mean - hostile[rival].mean
            rows.append(_row(f"{title(data)}, 25% hostile: at or above {title(rival)}, the best rival", gap, 0.0))
        unreachable = scores_on(plan, get, data, ["alphaedge"], drop=FAULTY_SHARE).scores.get("alphaedge")
        if unreachable is not None:
            gap = unreachable.mean - ours.mean
            rows.append(_row(f"{title(data)}, 25% unreachable: loses less than 0.01", gap, -0.01))
        if data == "movielens":
            rows.append(_row(f"{title(data)}: at least {MOVIELENS_GOAL}", ours.mean - MOVIELENS_GOAL, 0.0))
    rows += _above_persistence(plan, get)
    if not rows:
        return []
    return [
        Heading("Goals"),
        Text("The gap is AlphaEdge's score minus the score that the goal names."),
        Grid(["goal", "gap", "reached"], rows),
    ]


def _above_persistence(plan: Plan, get: Lookup) -> list[list[str]]:
    if "airquality" not in plan.data:
        return []
    last = cell_score(get(plan.table_cell("airquality", "persistence")))
    ours = cell_score(get(plan.table_cell("airquality", "alphaedge", "change")))
    if last is None or ours is None:
        return []
    return [_row("AirQuality, change model: above persistence", ours.mean - last.mean, 0.0)]


def _row(goal: str, gap: float, min_gap: float) -> list[str]:
    return [goal, f"{gap:+.4f}", "yes" if gap >= min_gap else "**no**"]
