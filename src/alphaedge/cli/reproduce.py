"""``alphaedge reproduce``: the paper's tables and figures on public data, beside its numbers; the development suite."""

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli import options
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.choices import (
    DEVELOPMENT_DATA_SETS,
    EXPERIMENTS,
    OTHER_EXPERIMENTS,
    PAPER_DATA_SETS,
    REPORTING_DATA_SETS,
)
from alphaedge.cli.options import option
from alphaedge.errors import InvalidValue, check_number

if TYPE_CHECKING:
    from rich.console import Console

    from alphaedge.experiments.plan import Plan
    from alphaedge.simulation.workers.protocol import Workers

EXAMPLES = """[bold]Examples[/]

alphaedge reproduce table1 --quick

alphaedge reproduce all --runs 5 --out results/paper

alphaedge reproduce attacks --data airquality

alphaedge reproduce table1 table3 --rivals --data movielens

alphaedge reproduce table3 delay --data movielens,airquality --resume

alphaedge reproduce worth --data movielens,film-genres --runs 3

alphaedge reproduce privacy --data movielens,airquality --runs 3 --out results/privacy

alphaedge reproduce development --quick --out results/development
"""
QUICK_ROWS: Final = 40_000


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help=f"all, or any of {', '.join(EXPERIMENTS)}; or {', '.join(OTHER_EXPERIMENTS)}, which all leaves out. "
            "Default: all.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        option(
            f"Data sets, separated by commas. Default: {','.join(PAPER_DATA_SETS)}; "
            f"for worth {','.join(REPORTING_DATA_SETS)} as well; for development {','.join(DEVELOPMENT_DATA_SETS)}.",
            metavar="NAME,...",
        ),
    ] = None,
    runs: Annotated[
        int | None, option("Runs of every cell, each with its own seed. Default: 5, or 1 with --quick.")
    ] = None,
    rows: Annotated[
        str | None,
        option("Rows per data set at most, or all. Default: the limits that the page states.", metavar="ROWS"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Use {QUICK_ROWS:,} rows per data set: a preview, not a result.")
    ] = False,
    rivals: Annotated[
        bool,
        typer.Option("--rivals", help="Add the rivals from the literature to table1, table3 and attacks, with bytes."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Reuse the finished cells in --out.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and finished cells.", metavar="DIR")] = Path(
        "results/paper"
    ),
    jobs: options.Jobs = None,
    engine: options.Engine = "local",
    ray_address: options.RayAddress = None,
) -> None:
    """Reproduce every table and figure of the paper on public data, and measure what AlphaEdge is worth there."""
    from rich.console import Console

    from alphaedge.cli.download import download
    from alphaedge.cli.output import check_writable
    from alphaedge.cli.workers import open_workers

    console = Console()
    with exit_on_error():
        count = (1 if quick else 5) if runs is None else runs
        limit = QUICK_ROWS if quick and rows is None else _parse_rows(rows)
        plan = _plan(experiments or ["all"], data, count, limit, rivals)
        check_writable(out, None)
        if not resume and any((out / "cells").glob("*.json")):
            raise InvalidValue("out", str(out), "a folder without finished cells, or --resume to reuse them")
        try:
            for name in plan.all_data:
                download(name, console)
            with open_workers(engine, ray_address, jobs) as workers:
                page = _run_with_progress(plan, out, workers, console)
        except KeyboardInterrupt:
            console.print(f"[yellow]Interrupted[/]: finished cells are in {out}; continue with --resume.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
    console.print(f"Results in {out} (open {page})", highlight=False, markup=False, soft_wrap=True)


def _plan(experiments: list[str], data: str | None, runs: int, rows: int | None, rivals: bool) -> "Plan":
    from alphaedge.experiments.plan import Plan

    check_number("runs", runs, low=1, whole=True)
    expanded = (name for e in experiments for name in (EXPERIMENTS if e == "all" else (e,)))
    names = tuple(dict.fromkeys(expanded))
    if data is None:
        return Plan(experiments=names, runs=runs, rows=rows, rivals=rivals)
    data_sets = tuple(d.strip() for d in data.split(",") if d.strip())
    if not data_sets:
        raise InvalidValue("data", data, "one of " + ", ".join(PAPER_DATA_SETS))
    # A data set counts for the experiments that have it. One that none of those asked for has is refused.
    development = tuple(d for d in data_sets if d in DEVELOPMENT_DATA_SETS) if "development" in names else ()
    reporting = tuple(d for d in data_sets if d in REPORTING_DATA_SETS) if "worth" in names else ()
    papers = tuple(d for d in data_sets if d in PAPER_DATA_SETS or d not in (*development, *reporting))
    if names == ("development",):
        development, papers = data_sets, ()
    return Plan(
        experiments=names,
        data=papers,
        development=development,
        reporting=reporting,
        runs=runs,
        rows=rows,
        rivals=rivals,
    )


def _parse_rows(rows: str | None) -> int | None:
    """None: the limits of each experiment. 0: all rows."""
    if rows is None:
        return None
    if rows == "all":
        return 0
    if not rows.isdigit() or int(rows) < 1:
        raise InvalidValue("rows", rows, "a whole number of at least 1, or all")
    return int(rows)


def _run_with_progress(plan: "Plan", out: Path, workers: "Workers", console: "Console") -> Path:
    from alphaedge.cli.progress import with_cells
    from alphaedge.experiments.reproduce import reproduce as run

    command, today = "alphaedge " + " ".join(sys.argv[1:]), datetime.date.today().isoformat()
    return with_cells(
        console, lambda report: run(plan, out, workers=workers, report=report, command=command, date=today)
    )
