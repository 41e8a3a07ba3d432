"""Scores of the six methods on one small store, to notice when they move.

python -m tests.simulation.golden      # write them anew, after a change that is meant to move them
"""

import json
from pathlib import Path
from typing import Any

import polars as pl

from alphaedge import MethodSettings, Store, simulate

FILE = Path(__file__).with_name("golden.json")
METHODS = ("alphaedge", "fedweight", "uniweight", "randps", "nops", "noagg")


def found() -> dict[str, Any]:
    """What the code scores now, and the mean share of the own model, in which methods differ that score alike."""
    results = simulate(
        methods=METHODS,
        store=Store(edges=8, clusters=4, events=560, items=50, users=20, appeal=3.0),
        batch_size=25,
        rate=0.03,
        method=MethodSettings(aggregate_every=5, peers=1),
    )
    own = results.weights.filter(pl.col("edge") == pl.col("peer")).group_by("method").agg(pl.col("share").mean())
    shares = {"noagg": 1.0} | dict(own.rows())
    return {
        name: {"mean": row["mean"], "pooled": row["pooled"], "loss": row["loss"], "own share": shares[name]}
        for name, row in results.summary()["methods"].items()
    }


def expected() -> dict[str, Any]:
    """The scores as they were written."""
    read: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return read


if __name__ == "__main__":
    rounded = {name: {key: round(value, 5) for key, value in row.items()} for name, row in found().items()}
    FILE.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")
