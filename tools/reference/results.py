"""The files of a results folder, read from the folder of a small simulation."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

import alphaedge
from tools.reference.markdown import table

# A file, key or column without a description here is an error.
FILES: Final[Mapping[str, str]] = {
    "summary.json": "means over batches, then honest edges, then seeds",
    "scores.parquet": "the score of every batch",
    "weights.parquet": "the shares of every mix; where peer and edge are equal, the share of the own model",
    "pulls.parquet": "how often and how much each edge pulled from each peer",
    "config.toml": "the settings; `alphaedge simulate --config` with this file repeats the run exactly",
    "report.html": "a report on one page that loads nothing",
    "scores-over-time.png": "score over time, one line per method",
    "scores-per-edge.png": "the score of each edge",
    "weights-over-time.png": "shares over time",
    "pulls.png": "who pulls from whom",
}
SUMMARY: Final[Mapping[str, str]] = {
    "data": "name of the data set",
    "task": "`classify` or `regress`",
    "metric": "AUC, or 1-SMAPE",
    "edges": "number of edges",
    "names": "names of the edges, if they have any",
    "clusters": "which edges are alike, if the data set says so",
    "adversaries": "hostile edges, by seed; means leave them out",
    "interrupted": "whether some runs are missing",
    "messages": "notes about the run",
    "methods": "by method, what follows",
    "methods.*.mean": "the score",
    "methods.*.ci95": "half of its 95% interval over the seeds; null with one seed",
    "methods.*.per_edge": "the score of each edge",
    "methods.*.per_seed": "the score of each seed",
    "methods.*.pooled": "the score over all predictions of an edge at once",
    "methods.*.loss": "the mean loss of predictions",
    "methods.*.bytes": "pulled bytes: `changed` is what edges pull; `common` (all rows that both know) and `full` (the "
    "whole model) are what they would pull without the saving",
    "methods.*.edge_batches_per_second": "speed of the simulation",
}
COLUMNS: Final[Mapping[str, str]] = {
    "method": "name of the method",
    "seed": "number of the run",
    "edge": "number of the edge",
    "batch": "number of the batch at its edge",
    "time": "time of the batch, 0 to 1 of the run",
    "score": "score of the batch, predicted before anything is learned from it; null if it has one class only",
    "aggregation": "number of the aggregation at its edge",
    "peer": "number of the peer",
    "share": "share of the mix, 0 to 1",
    "count": "number of pulls",
    "bytes": "sum of their bytes",
}


def section() -> str:
    """Tables of the files, of the keys of the summary and of the columns of the Parquet files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = alphaedge.Store(edges=3, clusters=1, events=300, items=50, users=20)
        often = alphaedge.MethodSettings(aggregate_every=4)
        alphaedge.simulate(methods=["alphaedge", "noagg"], store=store, batch_size=25, method=often).save(folder)
        made = ["## Files\n", table(("file", "content"), [(f"`{f}`", FILES[f]) for f in _order(folder)])]
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        made += [
            "## Keys of `summary.json`\n",
            table(("key", "meaning"), [(f"`{k}`", SUMMARY[k]) for k in _keys(summary)]),
        ]
        made.append("## Columns of the tables\n")
        for file in sorted(folder.glob("*.parquet")):
            rows = [(f"`{c}`", str(t), COLUMNS[c]) for c, t in pl.read_parquet_schema(file).items()]
            made.append(f"### `{file.name}`\n\n" + table(("column", "type", "meaning"), rows))
    return "\n".join(made)


def _order(folder: Path) -> list[str]:
    names = {path.name for path in folder.iterdir()}
    return [name for name in FILES if name in names] + sorted(names - set(FILES))


def _keys(summary: Mapping[str, Any]) -> Iterator[str]:
    for key, value in summary.items():
        yield key
        if key == "methods":
            yield from (f"methods.*.{inner}" for inner in next(iter(value.values())))
