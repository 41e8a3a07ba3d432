"""The report of a simulation: table, figures and settings on one HTML page that loads nothing."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from rich.filesize import decimal

from alphaedge.report.pictures import Images, encode
from alphaedge.report.styles import NO_NUMBER, in_order, style_of
from alphaedge.report.templates import render
from alphaedge.report.verdict_table import REGION_COLUMNS, region_rows

Figures = Mapping[str, Figure] | Sequence[tuple[str, str, Figure]]

MAX_REGIONS: Final = 60  # rows of a table; all are in summary.json

# How to read each figure. The first sentence says what it shows and serves as the alternative text.
CAPTIONS: Final[Mapping[str, str]] = {
    "scores_over_time": (
        "The score over the run, one line per method. Higher is better. Every batch is scored before it is learned "
        "from. Points are means over the batches in a part of the run, then over edges, then over seeds. The band is "
        "the 95% interval of that mean over seeds. With a single seed it is over edges, and says nothing about how "
        "another seed would turn out. Wide bands may be cut off."
    ),
    "weight_matrix": (
        "The share that every edge gives to each model in its mix, at several moments of the run. A row is an edge, a "
        "column the peer whose model it mixes in, the diagonal its own model. Each row adds up to 100%. The "
        "scale is a square root, which keeps small shares visible; grey was not in the mix. Lines separate clusters, "
        "where they are known. Edges that find their own cluster make strong squares along the diagonal."
    ),
    "who_pulls_from_whom": (
        "Who pulls models from whom, over the whole run. An arrow runs from a peer to the edge that pulls its "
        "model, in the colour of the peer's cluster. It is wider and stronger the larger the peer's share of all that "
        "the edge pulled. Rare pulls are left out (under 2%, or under half of an equal split among all if that is "
        "less). Arrows from adversaries have no colour. With many edges, a matrix takes the place of arrows: a row "
        "is an edge, a column a peer, grey was never pulled."
    ),
    "score_per_edge": (
        "The score of every edge under every method, mean over seeds. Higher is better. Edges are sorted by score, "
        "within their cluster if clusters are known. A vertical line spans the dots of an edge: where it is long, the "
        "choice of method matters."
    ),
}


def write(path: str | Path, *, summary: Mapping[str, Any], figures: Figures, config_toml: str, title: str) -> None:
    """Write the report.

    ``figures`` are given by title, or as (title, caption, figure); an empty caption stands for that of ``CAPTIONS``.
    """
    if isinstance(figures, Mapping):
        figures = [(name, "", figure) for name, figure in figures.items()]
    page = render(
        "simulation_report.html",
        title=title,
        facts=_facts(summary),
        figures=[_picture(*each) for each in figures],
        config=config_toml,
        **_tables(summary),
    )
    Path(path).write_text(page, encoding="utf-8")


def summary_html(summary: Mapping[str, Any]) -> str:
    """Return the verdict and the table of methods as a fragment, for notebooks."""
    return render("notebook.html", **_tables(summary))


def verdict_html(verdict: Mapping[str, Any]) -> str:
    """Return a verdict, given as plain values, as a fragment, for notebooks."""
    return render("notebook.html", **_verdict_table(verdict))


def _tables(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the templates of verdict and summary need."""
    return {
        "summary": summary,
        **_verdict_table(summary["verdict"]),
        "rows": _rows(summary["methods"]),
        "baselines": [
            {"name": name} | {key: _number(row[key]) for key in ("mean", "pooled", "loss")}
            for name, row in summary["baselines"].items()
        ],
        "seeds": max((len(one["per_seed"]) for one in summary["methods"].values()), default=0),
    }


def _verdict_table(verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    regions = region_rows(verdict, MAX_REGIONS) if verdict else []
    return {"verdict": verdict, "columns": REGION_COLUMNS, "regions": regions}


def _number(value: float | None, digits: int = 4) -> str:
    return NO_NUMBER if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    clusters, tasks = summary["clusters"], {"classify": "classification", "regress": "regression"}
    facts = [
        ("Data", str(summary["data"])),
        ("Predicted", str(summary["predicts"])),
        ("Task", tasks.get(summary["task"], str(summary["task"]))),
        ("Metric", f"{summary['metric']}, higher is better"),
        ("Edges", f"{summary['edges']}" + (f" in {len(set(clusters))} clusters" if clusters else "")),
    ]
    names = summary["names"]
    hostile = [
        f"seed {seed}: {', '.join(names[edge] if names else str(edge) for edge in edges)}"
        for seed, edges in summary["adversaries"].items()
        if edges
    ]
    return [*facts, ("Adversaries", "; ".join(hostile))] if hostile else facts


def _rows(methods: Mapping[str, Any]) -> list[dict[str, Any]]:
    means = [one["mean"] for one in methods.values() if _number(one["mean"]) != NO_NUMBER]
    rows = []
    for name in in_order(methods):
        one = methods[name]
        full, changed, speed = one["bytes"]["full"], one["bytes"]["changed"], one["edge_batches_per_second"]
        rows.append(
            {
                "name": style_of(name).name,
                "colour": style_of(name).colour,
                "best": bool(means) and one["mean"] == max(means),
                "mean": _number(one["mean"]),
                "ci95": "" if one["ci95"] is None else f" ± {_number(one['ci95'])}",
                "pooled": _number(one["pooled"]),
                "loss": _number(one["loss"]),
                "bytes": f"{decimal(changed)} of {decimal(full)} ({changed / full:.1%})" if full else "none",
                "speed": _number(speed, 0 if speed is not None and speed >= 10 else 2),
            }
        )
    return rows


def _picture(title: str, caption: str, figure: Figure) -> dict[str, str | Images]:
    label = str(figure.get_label())
    default = CAPTIONS.get(label, label) or caption
    return {
        "title": title,
        "caption": caption or default,
        "alt": f"{title}. {default.split('. ')[0]}",
        "images": encode(figure),
    }
