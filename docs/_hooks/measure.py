"""Measure what E, K and the weight rate do: ``python docs/_hooks/measure.py``. Writes docs/how-to/tuning.csv.

Every cell is one run of ``alphaedge simulate`` on the synthetic store, each seed with its own store.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from alphaedge_docs.tuning import COLUMNS, FILE

from alphaedge.metrics import interval95

SEEDS: Final = 3
ROWS: Final[dict[str, list[str]]] = {
    "E = 20, K = 5, rate 0.2 (the defaults)": [],
    "E = 5": ["--aggregate-every", "5"],
    "E = 10": ["--aggregate-every", "10"],
    "E = 40": ["--aggregate-every", "40"],
    "K = 2": ["--peers", "2"],
    "K = 10": ["--peers", "10"],
    "rate 0.01": ["--weight-rate", "0.01"],
    "rate 0.05": ["--weight-rate", "0.05"],
    "rate 0.5": ["--weight-rate", "0.5"],
    "no peers": ["--methods", "noagg"],
}


def main() -> None:
    """Measure, and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="the first row, of one small store: to see that it runs")
    options.add_argument("--out", type=Path, default=FILE)
    chosen = options.parse_args()
    size = ["--seeds", "1", "--edges", "4", "--events", "2500"] if chosen.quick else ["--seeds", str(SEEDS)]
    rows, first = list[tuple[str, ...]](), list[dict[str, Any]]()
    for name, words in list(ROWS.items())[: 1 if chosen.quick else None]:
        worlds = [measured([*size, *words]), measured([*size, *words, "--adversaries", "0.25"])]
        first = first or worlds
        scores = [text for found, base in zip(worlds, first, strict=True) for text in compared(found, base)]
        fetched = worlds[0]["bytes"]["changed"] / worlds[0]["edges"] / len(worlds[0]["per_seed"])
        rows.append((name, *scores, f"{fetched / 1e6:.1f} MB" if fetched else "nothing"))
        sys.stderr.write(" | ".join(rows[-1]) + "\n")
    with chosen.out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def measured(words: list[str]) -> dict[str, Any]:
    """What one simulation says of its only method."""
    methods = [] if "--methods" in words else ["--methods", "alphaedge"]
    command = [sys.executable, "-m", "alphaedge", "simulate", *methods, *words, "--jobs", "1", "--json", "-"]
    summary = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (found,) = summary["methods"].values()
    return {**found, "edges": summary["edges"]}


def compared(found: dict[str, Any], base: dict[str, Any]) -> tuple[str, str]:
    """A score, and its difference to the first row's, seed by seed, with a 95% interval."""
    gaps = [ours - theirs for ours, theirs in zip(found["per_seed"], base["per_seed"], strict=True)]
    half = interval95(gaps)
    told = f"{mean(gaps):+.4f}" + (f" ± {half:.4f}" if half is not None else "")
    return f"{found['mean']:.4f}", "" if found is base else told


if __name__ == "__main__":
    main()
