"""The picture of a search: the scores of its trials, and which settings mattered."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from alphaedge.report.charts import make_charts, make_message, style_axes
from alphaedge.report.styles import style_of
from alphaedge.tuning.search import Trial


def picture(
    trials: Sequence[Trial], defaults: Mapping[str, Any], importances: Mapping[str, float], method: str
) -> Figure:
    """Scores in the order of the trials with the best so far, what mattered, and scores over the values that did."""
    scored = [(t.number, t.score) for t in trials if t.score is not None]
    if not scored:
        return make_message("No trial is finished.")
    shown = list(importances)[:4]
    figure, (over_trials, mattered, *over_values) = make_charts(2 + len(shown), "tune")
    colour = style_of(method).colour
    for axes in (over_trials, mattered, *over_values):
        style_axes(axes)
    numbers, scores = zip(*scored, strict=True)
    over_trials.scatter(numbers, scores, s=14, color=colour, alpha=0.5, label="trial")
    over_trials.plot(numbers, list(accumulate(scores, max)), color=colour, linewidth=1.6, label="best so far")
    first = [t.score for t in trials if t.values == defaults and t.score is not None]
    for score in first[:1]:
        over_trials.axhline(score, color="0.5", linewidth=1, linestyle="--", label="defaults")
    low, high = min(*first, sorted(scores)[len(scores) // 4], max(scores)), max(scores)
    over_trials.set_ylim(low - 0.1 * (high - low) - 1e-6, high + 0.1 * (high - low) + 1e-6)
    over_trials.set_xlabel("trial")
    over_trials.set_ylabel("score")
    over_trials.legend(frameon=False, fontsize=8)
    names = list(importances)[::-1]
    mattered.barh([_short(n) for n in names], [importances[n] for n in names], color=colour)
    mattered.set_xlabel("share of what made the difference")
    for axes, key in zip(over_values, shown, strict=True):
        values = [t.values[key] for t in trials if t.score is not None]
        axes.scatter(values, scores, s=14, color=colour, alpha=0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_ylim(*over_trials.get_ylim())
        axes.set_xlabel(_short(key))
        axes.set_ylabel("score")
    return figure


def _short(key: str) -> str:
    return key.rpartition(".")[2]
