"""One page that holds a whole run: table, pictures and settings, in a single file that loads nothing."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from alphaedge.report.figures import in_order, look, save
from alphaedge.report.numbers import NONE, human
from alphaedge.report.page import whole

Figures = Mapping[str, Figure] | Sequence[tuple[str, str, Figure]]

# How to read each figure; the first sentence says what it shows and serves as the alternative text.
CAPTIONS: Final[Mapping[str, str]] = {
    "scores_over_time": (
        "The score in the course of the run, one line per method. Higher is better. Every batch is scored "
        "before it is learned from; batches are averaged per stretch of the run, then edges, then seeds. "
        "The band is the 95% interval of that mean: over seeds, or, if there was only one, over edges; then "
        "it says nothing about how another seed would turn out. Wide bands may be cut off."
    ),
    "weight_matrix": (
        "How much every edge takes from every peer, at some moments of the run. A row is an edge, a column "
        "the model it mixes in, the diagonal its own model; each row adds up to 100%. Darker is more, on a "
        "square-root scale that keeps small shares visible; grey was not in the mix. Where clusters are "
        "known, lines part them and their numbers stand above: edges that find their like make dark squares "
        "along the diagonal."
    ),
    "who_fetches_from_whom": (
        "Who fetches models from whom, over the whole run. An arrow runs from a peer to the edge that "
        "fetches its model, in the colour of the peer's cluster; the wider and the stronger, the larger the "
        "peer's share of all that the edge fetched. Stray fetches are left out (under 2%, or under half of "
        "an equal split among all if that is less). What is fetched from an adversary is black. With many "
        "edges it is a matrix instead: a row is an edge, a column a peer, darker is more, grey was never "
        "fetched."
    ),
    "score_per_edge": (
        "The score of every edge under every method, mean over seeds. Higher is better. Edges stand from "
        "low to high scores, within their cluster if clusters are known. A vertical line spans the dots of "
        "an edge: where it is long, the choice of the method matters."
    ),
}


def write(path: str | Path, *, summary: Mapping[str, Any], figures: Figures, config_toml: str, title: str) -> None:
    """Write the page. ``figures``: by title, or (title, caption, figure); an empty caption is made up for."""
    if isinstance(figures, Mapping):
        figures = [(name, "", figure) for name, figure in figures.items()]
    text = resources.files("alphaedge.report").joinpath("report.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(text)
    body = template.render(
        title=title,
        summary=summary,
        facts=_facts(summary),
        rows=_rows(summary["methods"]),
        seeds=max((len(one["per_seed"]) for one in summary["methods"].values()), default=0),
        figures=[_picture(*each) for each in figures],
        config=config_toml,
    )
    Path(path).write_text(whole(title, body), encoding="utf-8")


def _number(value: float | None, digits: int = 4) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    clusters, tasks = summary["clusters"], {"classify": "classification", "regress": "regression"}
    facts = [
        ("Data", str(summary["data"])),
        ("Task", tasks.get(summary["task"], str(summary["task"]))),
        ("Metric", f"{summary['metric']}, higher is better"),
        ("Edges", f"{summary['edges']}" + (f" in {len(set(clusters))} clusters" if clusters else "")),
    ]
    hostile = [
        f"seed {seed}: {', '.join(str(edge) for edge in edges)}"
        for seed, edges in summary["adversaries"].items()
        if edges
    ]
    return [*facts, ("Adversaries", "; ".join(hostile))] if hostile else facts


def _rows(methods: Mapping[str, Any]) -> list[dict[str, Any]]:
    means = [one["mean"] for one in methods.values() if _number(one["mean"]) != NONE]
    rows = []
    for name in in_order(methods):
        one = methods[name]
        full, changed, speed = one["bytes"]["full"], one["bytes"]["changed"], one["edge_batches_per_second"]
        rows.append(
            {
                "name": look(name).name,
                "colour": look(name).colour,
                "best": bool(means) and one["mean"] == max(means),
                "mean": _number(one["mean"]),
                "ci95": "" if one["ci95"] is None else f" ± {_number(one['ci95'])}",
                "pooled": _number(one["pooled"]),
                "loss": _number(one["loss"]),
                "bytes": f"{human(changed)} of {human(full)} ({changed / full:.1%})" if full else "none",
                "speed": _number(speed, 0 if speed is not None and speed >= 10 else 2),
            }
        )
    return rows


def _picture(title: str, caption: str, figure: Figure) -> dict[str, str]:
    label = str(figure.get_label())
    built_in = CAPTIONS.get(label, label) or caption
    buffer = io.BytesIO()
    save(figure, buffer)
    return {
        "title": title,
        "caption": caption or built_in,
        "alt": f"{title}. {built_in.split('. ')[0]}",
        "png": base64.b64encode(buffer.getvalue()).decode("ascii"),
    }
