"""The files of a results folder, from one that is made while the site is built."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

import alphaedge
from alphaedge_docs.markdown import table

# What each file and each key of the summary is; what is not here fails the build.
FILES: Final[Mapping[str, str]] = {
    "summary.json": "means over batches, then honest edges, then seeds",
    "scores.parquet": "the score of every batch",
    "weights.parquet": "the shares of every mix; a row whose peer is the edge itself is its own model",
    "fetches.parquet": "who fetched from whom, how often and how much",
    "config.toml": "the settings; `alphaedge simulate --config` with this file gives the same again",
    "report.html": "one page with everything, which loads nothing from elsewhere",
    "scores-over-time.png": "score over time, one line for each method",
    "scores-per-edge.png": "the score of each edge",
    "weights-over-time.png": "whose models are mixed, over time",
    "fetches.png": "who fetches from whom",
}
SUMMARY: Final[Mapping[str, str]] = {
    "data": "the data set's name",
    "task": "`classify` or `regress`",
    "metric": "what scores are: AUC, or 1-SMAPE",
    "edges": "how many there are",
    "names": "of the edges, if they have any",
    "clusters": "which edges are alike, where the maker of the data knows",
    "adversaries": "hostile edges, by seed; they count in no mean",
    "interrupted": "whether some runs are missing",
    "messages": "what is worth knowing about the run",
    "methods": "by method, all that follows",
    "methods.*.mean": "the score",
    "methods.*.ci95": "half of its 95% interval over the seeds; nothing with one seed",
    "methods.*.per_edge": "the score of each edge",
    "methods.*.per_seed": "the score of each seed",
    "methods.*.pooled": "the score of all predictions of an edge at once",
    "methods.*.loss": "the mean loss of predictions",
    "methods.*.bytes": "fetched: `changed` is what travels, `common` and `full` what would without the saving",
    "methods.*.edge_batches_per_second": "speed",
}
COLUMNS: Final[Mapping[str, str]] = {
    "method": "its name",
    "seed": "the run's number",
    "edge": "the edge's number",
    "batch": "the batch's number at its edge",
    "time": "when, 0 to 1 of the run",
    "score": "of what was predicted before anything was learned from the batch; null where it has one class only",
    "aggregation": "the mix's number at its edge",
    "peer": "the other edge's number",
    "share": "of the mix, 0 to 1",
    "count": "how often",
    "bytes": "in all",
}


def reference() -> str:
    """Files, the keys of the summary and the columns of the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = alphaedge.Store(edges=3, clusters=1, events=300, items=50, users=20)
        often = alphaedge.MethodSettings(aggregate_every=4)
        alphaedge.simulate(methods=["alphaedge", "noagg"], store=store, batch_size=25, method=often).save(folder)
        made = ["## Files\n", table(("file", "what it is"), [(f"`{f}`", FILES[f]) for f in _order(folder)])]
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
    found = {path.name for path in folder.iterdir()}
    return [name for name in FILES if name in found] + sorted(found - set(FILES))


def _keys(summary: Mapping[str, Any]) -> Iterator[str]:
    for key, value in summary.items():
        yield key
        if key == "methods":
            yield from (f"methods.*.{inner}" for inner in next(iter(value.values())))
