"""``reproduce``: fill the cells of a plan and write them down as one page, with tables and pictures."""

import csv
from pathlib import Path

from alphaedge.experiments.cell import Cell, Found, Shelf
from alphaedge.experiments.compare import score
from alphaedge.experiments.fill import Report, fill
from alphaedge.experiments.goals import goals
from alphaedge.experiments.plan import FIGURE_ROWS, SWEEPS, TABLE_ROWS, Plan
from alphaedge.experiments.sweeps import blocks_of
from alphaedge.experiments.tables import communication, table1, table2, table3, title
from alphaedge.report.page import Block, Heading, Text, write


def reproduce(plan: Plan, folder: Path, *, jobs: int, report: Report, command: str, date: str) -> Path:
    """Run what is missing, then write ``results.md``, ``results.html``, ``cells.csv`` and the pictures.

    Interrupted, it writes what there is and lets the interruption pass on; finished cells are kept in ``cells``.
    """
    shelf = Shelf(folder / "cells")
    try:
        fill(plan.cells(), shelf, jobs, report)
    finally:
        found = {cell: shelf.get(cell) for cell in plan.cells()}
        _write_csv(folder / "cells.csv", found)
        write(page(plan, found, command, date), folder, "results", "AlphaEdge: the paper's evaluation")
    return folder / "results.html"


def page(plan: Plan, found: dict[Cell, Found | None], command: str, date: str) -> list[Block]:
    """Everything that the plan asks for."""
    finished = sum(f is not None for f in found.values())
    seconds = sum(f.seconds for f in found.values() if f is not None)
    rows = "all rows" if plan.rows == 0 else f"at most {plan.rows:,} rows" if plan.rows else ""
    figures = ", ".join(f"{title(d)} {FIGURE_ROWS[d]:,}" for d in plan.data if FIGURE_ROWS[d] < TABLE_ROWS)
    rule = rows or (
        f"at most {TABLE_ROWS:,} rows of a data set for tables, and less for figures ({figures}). A set with more rows "
        "is cut to a window that begins after its first quarter, as far as that is long enough; one with fewer is whole"
    )
    blocks: list[Block] = [
        Heading("The paper's evaluation on public data", 1),
        Text(
            f"`{command}`, {date}; {plan.runs} runs each, {rule}. {finished} of {len(found)} cells are finished "
            f"({seconds / 60:.0f} minutes of computing). Scores are AUC, and 1-SMAPE for AirQuality: of every batch "
            "before it is learned from, averaged over batches, then edges, then runs. Higher is better."
        ),
    ]
    tables = {"table1": table1, "table2": table2, "table3": table3}
    for experiment in plan.experiments:
        if experiment in tables:
            blocks += tables[experiment](plan, found.get)
        if experiment == "table1":
            blocks += communication(plan, found.get)
        if experiment == "scores-over-time" or experiment in SWEEPS:
            blocks += blocks_of(experiment, plan, found.get)
    return blocks + goals(plan, found.get)


def _write_csv(path: Path, found: dict[Cell, Found | None]) -> None:
    names = list(Cell.__struct_fields__)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*names, "mean", "ci95", "per_seed", "seconds", "note"])
        for cell, result in found.items():
            if result is not None:
                mean = score(result)
                numbers = [mean.mean, mean.ci95] if mean else ["", ""]
                seeds = " ".join("" if s is None else f"{s:.6f}" for s in result.per_seed)
                note = result.notes[0] if result.notes else ""
                rows.writerow([*(getattr(cell, n) for n in names), *numbers, seeds, f"{result.seconds:.1f}", note])
