"""The files of a results folder, read from the folder of a small simulation."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    "state.safetensors": "how the fleet of `alphaedge` ended under the first seed, for `alphaedge fleet init`",
    "report.html": "a report on one page that loads nothing",
    "scores-over-time.png": "score over time, one line per method",
    "scores-per-edge.png": "the score of each edge",
    "weights-over-time.png": "shares over time",
    "pulls.png": "who pulls from whom",
}
SUMMARY: Final[Mapping[str, str]] = {
    "data": "name of the data set",
    "task": "`classify` or `regress`",
    "predicts": "what is predicted, of how many events and from when to when",
    "metric": "AUC, or 1-SMAPE",
    "loss": "name of the loss: log loss, or RMSE, the root mean squared error, in the unit of the label",
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
    "baselines": "trivial baselines by name, best first, with what follows; scored like the methods",
    "baselines.*.mean": "the score",
    "baselines.*.per_edge": "the score of each edge",
    "baselines.*.pooled": "the score over all predictions of an edge at once",
    "baselines.*.loss": "the mean loss of predictions",
    "verdict": "whether learning from each other pays; null unless `noagg` was run beside another method",
    "verdict.headline": "the conclusion in one sentence",
    "verdict.sentences": "what else there is to say",
    "verdict.method": "what is compared with `noagg`: `alphaedge`, or else the first other method",
    "verdict.metric": "the unit of gains",
    "verdict.conclusion": "`pays`, `does not pay` or `can't tell`",
    "verdict.gain": "score minus that of learning alone, paired by seed and edge; hostile edges are left out",
    "verdict.ci95": "half of the gain's 95% interval",
    "verdict.interval_over": "what the interval rests on: `seeds` if there are three or more, else `regions`",
    "verdict.seeds": "number of paired seeds",
    "verdict.alone": "the score of learning alone",
    "verdict.with_peers": "the score of the method",
    "verdict.better": "number of regions that gain",
    "verdict.regions": "for each edge: `name`, `events`, `alone`, `with_peers`, `gain`, `ci95` (over three or more "
    "seeds), `bytes`",
    "verdict.pays_from": "from when on the gain so far stays above 0: `share` of the run, `events` of a region until "
    "then, `date` if times are seconds since 1970; null if never",
    "verdict.new_ids": "the gain on events that name an id for the first time at their edge; null without ids",
    "verdict.cost": "pulled bytes of one run: `bytes` in all, `per_region`, `per_region_and_day` if there are dates",
    "verdict.rounds": "rounds of a region, median",
    "verdict.better_baseline": "the best baseline, if it scores above both",
    "verdict.warnings": "what makes the verdict weak, each with a remedy",
}
COLUMNS: Final[Mapping[str, str]] = {
    "method": "name of the method",
    "seed": "number of the run",
    "edge": "number of the edge",
    "edge_name": "name of the edge, if edges have names",
    "batch": "number of the batch at its edge",
    "time": "time of the batch, 0 to 1 of the run",
    "score": "score of the batch, predicted before anything is learned from it; null if it has one class only",
    "aggregation": "number of the aggregation at its edge",
    "peer": "number of the peer",
    "peer_name": "name of the peer, if edges have names",
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
        data = replace(alphaedge.synthetic(store), names=("Oslo", "Rome", "Bonn"))
        alphaedge.simulate(
            methods=["alphaedge", "noagg"], data=data, batch_size=25, method=often, keep_state="alphaedge"
        ).save(folder)
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
        if key in ("methods", "baselines"):
            yield from (f"{key}.*.{inner}" for inner in next(iter(value.values())))
        if key == "verdict":
            yield from (f"{key}.{inner}" for inner in value)
