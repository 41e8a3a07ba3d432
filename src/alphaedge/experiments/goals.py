"""What the method should reach on public data, and what it does reach."""

from alphaedge.experiments.compare import LEVEL, Score, best_rival, score
from alphaedge.experiments.grids import Lookup, row_of, title
from alphaedge.experiments.plan import ALL, SHARE, Plan
from alphaedge.report.page import Block, Grid, Heading, Text

MOVIELENS = 0.719  # the paper's figure


def goals(plan: Plan, get: Lookup) -> list[Block]:
    """A row a goal: what was asked, what was measured, whether it is reached."""
    rows: list[list[str]] = []
    for data in plan.data:
        calm, hostile = (row_of(plan, get, data, ALL, adversaries=share).scores for share in (0.0, SHARE))
        ours = calm.get("alphaedge")
        if ours is None:
            continue
        if "noagg" in calm:
            rows.append(_row(f"{title(data)}: above NoAgg", ours.mean - calm["noagg"].mean, 0.0))
        rival = best_rival({m: s for m, s in calm.items() if m != "noagg"})
        if rival is not None:
            gap = ours.mean - calm[rival].mean
            rows.append(_row(f"{title(data)}: level with {title(rival)}, the best rival", gap, -LEVEL))
        rival = best_rival(hostile)
        if rival is not None and "alphaedge" in hostile:
            gap = hostile["alphaedge"].mean - hostile[rival].mean
            rows.append(_row(f"{title(data)}, 25% hostile: at or above {title(rival)}, the best rival", gap, 0.0))
        down = row_of(plan, get, data, ["alphaedge"], drop=SHARE).scores.get("alphaedge")
        if down is not None:
            rows.append(_row(f"{title(data)}, 25% down: loses less than 0.01", down.mean - ours.mean, -0.01))
        if data == "movielens":
            rows.append(_row(f"{title(data)}: at least {MOVIELENS}", ours.mean - MOVIELENS, 0.0))
    rows += _persistence(plan, get)
    if not rows:
        return []
    return [
        Heading("What was to be reached"),
        Text("The gap is AlphaEdge's, to what the goal names."),
        Grid(["goal", "gap", "reached"], rows),
    ]


def _persistence(plan: Plan, get: Lookup) -> list[list[str]]:
    if "airquality" not in plan.data:
        return []
    last: Score | None = score(get(plan.table_cell("airquality", "persistence")))
    ours = score(get(plan.table_cell("airquality", "alphaedge", "change")))
    return (
        [_row("AirQuality, model of the change: above persistence", ours.mean - last.mean, 0.0)]
        if last and ours
        else []
    )


def _row(goal: str, gap: float, least: float) -> list[str]:
    return [goal, f"{gap:+.4f}", "yes" if gap >= least else "**no**"]
