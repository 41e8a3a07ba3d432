"""Run the cells of a plan, the paper's evaluation and what stands beside it, and write one page with what comes out."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from alphaedge.experiments.attack_table import attack_blocks
from alphaedge.experiments.cell import Cell, CellResult
from alphaedge.experiments.cell_store import CellStore
from alphaedge.experiments.development_table import development_blocks
from alphaedge.experiments.goals import goals
from alphaedge.experiments.paper_sweeps import sweep_blocks
from alphaedge.experiments.paper_tables import communication, many_edges, table1, table2, table3
from alphaedge.experiments.plan import DEVELOPMENT_ROWS, FIGURE_ROWS, TABLE_ROWS, Plan
from alphaedge.experiments.privacy_price import privacy_blocks
from alphaedge.experiments.run_cells import Report, run_cells
from alphaedge.experiments.score_table import Lookup, title
from alphaedge.experiments.scores import cell_score
from alphaedge.experiments.scores_over_time import scores_over_time
from alphaedge.experiments.worth import worth_blocks
from alphaedge.report.page import Block, Heading, Text, write
from alphaedge.simulation.workers.protocol import Workers

REGRESSION: Final = ("airquality", "parking", "birthdays")  # the data sets whose labels are numbers


def reproduce(plan: Plan, folder: Path, *, workers: Workers, report: Report, command: str, date: str) -> Path:
    """Run the missing cells, then write ``results.md``, ``results.html``, ``cells.csv`` and the figures.

    Finished cells are kept in the folder ``cells``. If interrupted, it writes the page from those and raises.
    """
    store = CellStore(folder / "cells")
    try:
        run_cells(plan.cells(), store, workers, report)
    finally:
        results = {cell: store.get(cell) for cell in plan.cells()}
        _write_csv(folder / "cells.csv", results)
        write(page(plan, results, command, date), folder, "results", f"AlphaEdge: {_title(plan).lower()}")
    return folder / "results.html"


def page(plan: Plan, results: Mapping[Cell, CellResult | None], command: str, date: str) -> list[Block]:
    """Make the page of all experiments in the plan."""
    finished = [r for r in results.values() if r is not None]
    minutes = sum(r.seconds for r in finished) / 60
    runs = f"{plan.runs} runs per cell" if plan.runs > 1 else "one run per cell"
    blocks: list[Block] = [
        Heading(_title(plan), 1),
        Text(
            f"`{command}`, {date}, {runs}. {_row_limits(plan)} {len(finished)} of {len(results)} cells are finished "
            f"({minutes:.0f} minutes of computing). Scores are {_scores(plan)}. Every batch is scored before it is "
            "learned from; scores are averaged over batches, then edges, then runs. Higher is better."
        ),
        Text(f"Base models: {_base_models(plan)}."),
    ]
    for experiment in plan.experiments:
        blocks += experiment_blocks(experiment, plan, results.get)
    return blocks + goals(plan, results.get)


def experiment_blocks(experiment: str, plan: Plan, get: Lookup) -> list[Block]:
    """Make the part of the page that belongs to one experiment."""
    match experiment:
        case "table1":
            return table1(plan, get) + communication(plan, get)
        case "table2":
            return table2(plan, get)
        case "table3":
            return table3(plan, get)
        case "many-edges":
            return many_edges(plan, get)
        case "attacks":
            return attack_blocks(plan, get)
        case "development":
            return development_blocks(plan, get)
        case "worth":
            return worth_blocks(plan, get)
        case "privacy":
            return privacy_blocks(plan, get)
        case "scores-over-time":
            return scores_over_time(plan, get)
    return sweep_blocks(experiment, plan, get)


def _title(plan: Plan) -> str:
    if plan.only_development:
        return "The development suite"
    titles: dict[tuple[str, ...], str] = {
        ("worth",): "What learning from each other is worth",
        ("privacy",): "What privacy costs",
    }
    return titles.get(plan.experiments, "The paper's evaluation on public data")


def _scores(plan: Plan) -> str:
    """Name the scores, and the data sets with 1-SMAPE."""
    numbers = [title(data) for data in REGRESSION if data in plan.all_data]
    return f"AUC, and 1-SMAPE for {', '.join(numbers)}" if numbers else "AUC"


def _base_models(plan: Plan) -> str:
    """Describe the base models, each with the data sets that it is for."""
    models: dict[str, list[str]] = {}
    for data in plan.all_data:
        models.setdefault(_base_model(plan, data), []).append(title(data))
    return "; ".join(f"{model} ({', '.join(names)})" for model, names in models.items())


def _base_model(plan: Plan, data: str) -> str:
    settings = plan.table_cell(data, "alphaedge").settings()
    rules = {
        "adagrad": f", Adagrad at {settings.id_rate:g} for rows of ids",
        "lazy": ", rows of ids only where a batch names them",
        "dense": "",
    }
    rows = rules[settings.row_optimizer] if settings.model == "deepfm" else ""
    return f"{settings.model} with batches of {settings.size}, Adam at {settings.model_rate:g}{rows}"


def _row_limits(plan: Plan) -> str:
    """Describe how large data sets are cut."""
    if plan.only_development and plan.rows is None:
        return f"At most {DEVELOPMENT_ROWS:,} rows per data set."
    if plan.rows is not None:
        return f"At most {plan.rows:,} rows per data set." if plan.rows else "All rows."
    tables, figures = (
        ", ".join(f"{rows[d]:,} of {title(d)}" for d in plan.data if d in rows) for rows in (TABLE_ROWS, FIGURE_ROWS)
    )
    if plan.experiments == ("worth",):
        figures = tables
    if not figures:
        return "All rows."
    cut = f"at most {figures}" if tables == figures else f"at most {tables or 'all'} in tables, {figures} in figures"
    return f"Rows: {cut}; other data sets are whole. A cut begins after the first quarter if enough rows follow."


def _write_csv(path: Path, results: Mapping[Cell, CellResult | None]) -> None:
    names = list(Cell.__struct_fields__)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([*names, "mean", "ci95", "per_seed", "bytes", "seconds", "note"])
        for cell, result in results.items():
            if result is not None:
                score = cell_score(result)
                numbers = [score.mean, score.ci95] if score else ["", ""]
                seeds = " ".join("" if s is None else f"{s:.6f}" for s in result.per_seed)
                note = result.notes[0] if result.notes else ""
                costs = [result.bytes[2], f"{result.seconds:.1f}"]
                rows.writerow([*(getattr(cell, n) for n in names), *numbers, seeds, *costs, note])
