"""What the paper claims about its figures, and whether it holds here."""

from collections.abc import Mapping
from itertools import pairwise

from alphaedge.experiments.score_table import title
from alphaedge.scoring import LEVEL_MARGIN, Score

Curve = Mapping[float, Score]  # by the value of the varied setting


def check_claim(name: str, curves: Mapping[str, Mapping[str, Curve]], averages: Mapping[str, Curve]) -> str:
    """Compare a figure with the paper's claim about it, in words.

    ``curves`` are by data set and method. ``averages`` are by method, at the values where every data set has a score.
    """
    if len(averages["alphaedge"]) < 2:
        return "Too few cells to check the paper's claim."
    if name == "delay":
        return _delay({d: of["alphaedge"] for d, of in curves.items()})
    if name == "staleness":
        return _staleness(averages)
    return _rise_and_fall(averages) + (_large_period(averages) if name == "aggregation-period" else "")


def _delay(ours: Mapping[str, Curve]) -> str:
    falls = {d: _fall(curve) for d, curve in ours.items() if len(curve) > 1}
    right = all((fall > LEVEL_MARGIN) != (d == "movielens") for d, fall in falls.items())
    changes = ", ".join(f"{-fall:+.4f} on {title(d)}" for d, fall in falls.items())
    return (
        f"The paper's claim: delay hurts, except on MovieLens. This {_holds(right)} here: from the shortest to the "
        f"longest delay, AlphaEdge's score changes by {changes}."
    )


def _staleness(averages: Mapping[str, Curve]) -> str:
    ours, theirs = averages["alphaedge"], averages["fedweight"]
    falls = {m: _fall(curve) for m, curve in averages.items() if m != "noagg" and len(curve) > 1}
    changes = ", ".join(f"{title(m)} {-fall:+.4f}" for m, fall in falls.items())
    text = (
        f"The paper's claims: staleness lowers all scores, and it narrows AlphaEdge's lead. {_on_average(ours)} the "
        f"first {_holds(all(fall > 0 for fall in falls.values()))} ({changes})"
    )
    lead = {v: s.mean - theirs[v].mean for v, s in ours.items() if v in theirs}
    if len(lead) > 1:
        first, last = lead[min(lead)], lead[max(lead)]
        text += f"; the second {_holds(last < first)} (the lead over FedWeight goes from {first:+.4f} to {last:+.4f})"
    return text + "."


def _rise_and_fall(averages: Mapping[str, Curve]) -> str:
    parts = []
    for method in ("alphaedge", "alphaedge-paper"):
        curve = averages[method]
        means = [curve[v].mean for v in sorted(curve)]
        if len(means) < 2:
            continue
        top = means.index(max(means))
        rises = all(a <= b + LEVEL_MARGIN for a, b in pairwise(means[: top + 1]))
        falls = all(a >= b - LEVEL_MARGIN for a, b in pairwise(means[top:]))
        right = rises and falls and 0 < top < len(means) - 1
        parts.append(f"{_holds(right)} for {title(method)} (best at {sorted(curve)[top]:g})")
    where = _on_average(averages["alphaedge"])
    return f"The paper's claim: scores rise, then fall. {where} this {' and '.join(parts)}."


def _large_period(averages: Mapping[str, Curve]) -> str:
    ours, alone = averages["alphaedge"], averages["noagg"]
    last = max(ours)
    if last not in alone:
        return ""
    gap = ours[last].mean - alone[last].mean
    return f" The claim that a large E equals NoAgg {_holds(abs(gap) < LEVEL_MARGIN)}: {gap:+.4f} at {last:g}."


def _on_average(curve: Curve) -> str:
    return f"On average (from {min(curve):g} to {max(curve):g}, where every data set has a score)"


def _fall(curve: Curve) -> float:
    return curve[min(curve)].mean - curve[max(curve)].mean


def _holds(right: bool) -> str:
    return "**holds**" if right else "**does not hold**"
