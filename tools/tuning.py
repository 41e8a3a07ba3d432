"""Measure the effect of E, K and the weight rate: ``python -m tools.tuning`` writes docs/how-to/tuning.csv.

Every cell is one run of ``alphaedge simulate`` on the synthetic store, with a store of its own for each seed.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any, Final

from alphaedge.scoring import interval95
from tools.reference.tuning import COLUMNS, FILE

SEEDS: Final = 3
ROWS: Final[dict[str, list[str]]] = {
    "E = 5, K = 5, rate 0.2 (the defaults)": [],
    "E = 2": ["--aggregate-every", "2"],
    "E = 10": ["--aggregate-every", "10"],
    "E = 20": ["--aggregate-every", "20"],
    "E = 40": ["--aggregate-every", "40"],
    "K = 2": ["--peers", "2"],
    "K = 10": ["--peers", "10"],
    "rate 0.01": ["--weight-rate", "0.01"],
    "rate 0.05": ["--weight-rate", "0.05"],
    "rate 0.5": ["--weight-rate", "0.5"],
    "no peers": ["--methods", "noagg"],
}


def main() -> None:
    """Measure all rows and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="measure the first row alone, on one small store")
    options.add_argument("--out", type=Path, default=FILE)
    chosen = options.parse_args()
    size = ["--seeds", "1", "--edges", "4", "--events", "2500"] if chosen.quick else ["--seeds", str(SEEDS)]
    rows, baseline = list[tuple[str, ...]](), list[dict[str, Any]]()
    for name, words in list(ROWS.items())[: 1 if chosen.quick else None]:
        worlds = [simulate([*size, *words]), simulate([*size, *words, "--adversaries", "0.25"])]
        baseline = baseline or worlds
        scores = [text for result, base in zip(worlds, baseline, strict=True) for text in compare(result, base)]
        pulled = worlds[0]["bytes"]["changed"] / worlds[0]["edges"] / len(worlds[0]["per_seed"])
        rows.append((name, *scores, f"{pulled / 1e6:.1f} MB" if pulled else "nothing"))
        sys.stderr.write(" | ".join(rows[-1]) + "\n")
    with chosen.out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def simulate(words: list[str]) -> dict[str, Any]:
    """Run one simulation; the summary of its only method, and the number of edges."""
    methods = [] if "--methods" in words else ["--methods", "alphaedge"]
    command = [sys.executable, "-m", "alphaedge", "simulate", *methods, *words, "--jobs", "1", "--json", "-"]
    summary = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (result,) = summary["methods"].values()
    return {**result, "edges": summary["edges"]}


def compare(result: dict[str, Any], base: dict[str, Any]) -> tuple[str, str]:
    """A score, and its difference to the baseline's, paired by seed, with a 95% interval."""
    gaps = [ours - theirs for ours, theirs in zip(result["per_seed"], base["per_seed"], strict=True)]
    half = interval95(gaps)
    difference = f"{mean(gaps):+.4f}" + (f" ± {half:.4f}" if half is not None else "")
    return f"{result['mean']:.4f}", "" if result is base else difference


if __name__ == "__main__":
    main()
