"""``reproduce``: fill the cells of a plan and write them down as one page, with tables and pictures."""

import csv
from pathlib import Path

from alphaedge.experiments.cell import Cell, CellResult, CellStore
from alphaedge.experiments.compare import score
from alphaedge.experiments.fill import Report, fill
from alphaedge.experiments.goals import goals
from alphaedge.experiments.grids import Lookup, title
from alphaedge.experiments.over_time import over_time
from alphaedge.experiments.plan import FIGURE_ROWS, TABLE_ROWS, Plan
from alphaedge.experiments.sweeps import figure_of
from alphaedge.experiments.tables import communication, many_edges, table1, table2, table3
from alphaedge.report.page import Block, Heading, Text, write


def reproduce(plan: Plan, folder: Path, *, jobs: int, report: Report, command: str, date: str) -> Path:
    """Run what is missing, then write ``results.md``, ``results.html``, ``cells.csv`` and the pictures.

    Interrupted, it writes what there is and lets the interruption pass on; finished cells are kept in ``cells``.
    """
    shelf = CellStore(folder / "cells")
    try:
        fill(plan.cells(), shelf, jobs, report)
    finally:
        found = {cell: shelf.get(cell) for cell in plan.cells()}
        _write_csv(folder / "cells.csv", found)
        write(page(plan, found, command, date), folder, "results", "AlphaEdge: the paper's evaluation")
    return folder / "results.html"


def page(plan: Plan, found: dict[Cell, CellResult | None], command: str, date: str) -> list[Block]:
    """Everything that the plan asks for."""
    finished = sum(f is not None for f in found.values())
    seconds = sum(f.seconds for f in found.values() if f is not None)
    rule = "all rows" if plan.rows == 0 else f"at most {plan.rows:,} rows" if plan.rows else _usual_rows(plan)
    runs = f"{plan.runs} runs of each cell" if plan.runs > 1 else "one run of each cell"
    blocks: list[Block] = [
        Heading("The paper's evaluation on public data", 1),
        Text(
            f"`{command}`, {date}; {runs}, {rule}. {finished} of {len(found)} cells are finished "
            f"({seconds / 60:.0f} minutes of computing). Scores are AUC, and 1-SMAPE for AirQuality: of every batch "
            "before it is learned from, averaged over batches, then edges, then runs. Higher is better."
        ),
        Text(f"Base models: {_bases(plan)}."),
    ]
    for experiment in plan.experiments:
        blocks += blocks_of(experiment, plan, found.get)
    return blocks + goals(plan, found.get)


def blocks_of(experiment: str, plan: Plan, get: Lookup) -> list[Block]:
    """One table or figure, with all that belongs to it."""
    match experiment:
        case "table1":
            return table1(plan, get) + communication(plan, get)
        case "table2":
            return table2(plan, get)
        case "table3":
            return table3(plan, get)
        case "many-edges":
            return many_edges(plan, get)
        case "scores-over-time":
            return over_time(plan, get)
    return figure_of(experiment, plan, get)


def _bases(plan: Plan) -> str:
    """The base models of all data sets, those of a kind together."""
    kinds: dict[str, list[str]] = {}
    for data in plan.data:
        kinds.setdefault(_base(plan, data), []).append(title(data))
    return "; ".join(f"{' and '.join(names)} {kind}" for kind, names in kinds.items())


def _base(plan: Plan, data: str) -> str:
    """The base model of a data set and how it learns, in words."""
    settings = plan.table_cell(data, "alphaedge").settings()
    rules = {
        "adagrad": f", rows of ids by Adagrad at {settings.id_rate:g}",
        "lazy": ", rows of ids only where a batch names them",
        "dense": "",
    }
    rows = rules[settings.row_rule] if settings.model == "deepfm" else ""
    return f"{settings.model}, batches of {settings.size}, Adam at {settings.model_rate:g}{rows}"


def _usual_rows(plan: Plan) -> str:
    """The rule by which large data sets are cut, in words."""
    tables, figures = (
        ", ".join(f"{rows[d]:,} of {title(d)}" for d in plan.data if d in rows) for rows in (TABLE_ROWS, FIGURE_ROWS)
    )
    if not figures:
        return "whole data sets"
    cut = f"at most {figures}" if tables == figures else f"at most {tables or 'all'} in tables, {figures} in figures"
    return f"rows: {cut}, the rest whole. A cut begins after the first quarter, as far as enough rows follow"


def _write_csv(path: Path, found: dict[Cell, CellResult | None]) -> None:
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
