"""What the paper claims of its figures, and whether it holds here."""

from collections.abc import Mapping
from itertools import pairwise

from alphaedge.experiments.compare import LEVEL, Score
from alphaedge.experiments.grids import title

Points = Mapping[str, Mapping[float, Score]]  # method -> value -> score


def claim(name: str, points: Mapping[str, Points], averages: Points) -> str:
    """One line beside a figure; averages are over the data sets, where all have a score."""
    if len(averages["alphaedge"]) < 2:
        return "Too few cells to check the paper's claim."
    if name == "delay":
        return _delay({d: of["alphaedge"] for d, of in points.items()})
    if name == "staleness":
        return _staleness(averages)
    return _rise_and_fall(averages) + (_huge_period(averages) if name == "aggregation-period" else "")


def _delay(ours: Mapping[str, Mapping[float, Score]]) -> str:
    lost = {d: _fall(line) for d, line in ours.items() if len(line) > 1}
    right = all((x > LEVEL) != (d == "movielens") for d, x in lost.items())
    changes = ", ".join(f"{title(d)} {-x:+.4f}" for d, x in lost.items())
    return (
        f"The paper: delay hurts, except on Movielens. This **{_holds(right)}** here: over the delays of each data "
        f"set, AlphaEdge changes by {changes}."
    )


def _staleness(averages: Points) -> str:
    ours, theirs = averages["alphaedge"], averages["fedweight"]
    falls = {m: _fall(line) for m, line in averages.items() if m != "noagg" and len(line) > 1}
    lower = all(fall > 0 for fall in falls.values())
    text = f"The paper: staleness lowers all and narrows the lead. On average ({_span(ours)}) that it lowers all "
    text += f"**{_holds(lower)}** (" + ", ".join(f"{title(m)} {-fall:+.4f}" for m, fall in falls.items()) + ")"
    lead = {v: s.mean - theirs[v].mean for v, s in ours.items() if v in theirs}
    if len(lead) > 1:
        first, last = lead[min(lead)], lead[max(lead)]
        text += (
            f"; that AlphaEdge's lead over FedWeight narrows **{_holds(last < first)}** ({first:+.4f} to {last:+.4f})"
        )
    return text + "."


def _rise_and_fall(averages: Points) -> str:
    text = f"The paper: scores rise, then fall. On average ({_span(averages['alphaedge'])}) this "
    parts = []
    for method in ("alphaedge", "alphaedge-paper"):
        line = averages[method]
        means = [line[v].mean for v in sorted(line)]
        if len(means) < 2:
            continue
        top = means.index(max(means))
        rises = all(a <= b + LEVEL for a, b in pairwise(means[: top + 1]))
        falls = all(a >= b - LEVEL for a, b in pairwise(means[top:]))
        right = rises and falls and 0 < top < len(means) - 1
        parts.append(f"**{_holds(right)}** for {title(method)} (the best is at {sorted(line)[top]:g})")
    return text + " and ".join(parts) + "."


def _huge_period(averages: Points) -> str:
    ours, alone = averages["alphaedge"], averages["noagg"]
    last = max(ours)
    if last not in alone:
        return ""
    gap = ours[last].mean - alone[last].mean
    return f" That a huge E equals NoAgg **{_holds(abs(gap) < LEVEL)}** at {last:g}: {gap:+.4f}."


def _span(line: Mapping[float, Score]) -> str:
    return f"from {min(line):g} to {max(line):g}, where every data set has a score"


def _fall(line: Mapping[float, Score]) -> float:
    return line[min(line)].mean - line[max(line)].mean


def _holds(right: bool) -> str:
    return "holds" if right else "does not hold"
