"""``alphaedge reproduce``: the paper's tables and figures on public data, beside its numbers."""

import datetime
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.choices import EXPERIMENTS, PAPER_DATA_SETS
from alphaedge.cli.options import option
from alphaedge.errors import InvalidValue, check_number

if TYPE_CHECKING:
    from rich.console import Console

    from alphaedge.experiments.plan import Plan

EXAMPLES = """[bold]Examples[/]

alphaedge reproduce table1 --quick

alphaedge reproduce all --runs 5 --out results/paper

alphaedge reproduce attacks --data airquality

alphaedge reproduce table3 delay --data movielens,airquality --resume
"""
QUICK_ROWS: Final = 40_000


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPERIMENT", help=f"all, or any of {', '.join(EXPERIMENTS)}. Default: all."),
    ] = None,
    data: Annotated[str, typer.Option(help="Data sets, separated by commas.", metavar="NAME,...")] = ",".join(
        PAPER_DATA_SETS
    ),
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
    resume: Annotated[bool, typer.Option("--resume", help="Reuse the finished cells in --out.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and finished cells.", metavar="DIR")] = Path(
        "results/paper"
    ),
    jobs: Annotated[int | None, option("Worker processes. Default: one per core.")] = None,
) -> None:
    """Reproduce every table and figure of the paper on public data, with the paper's numbers beside."""
    from rich.console import Console

    from alphaedge.cli.download import download
    from alphaedge.cli.output import check_writable

    console = Console()
    with exit_on_error():
        count = (1 if quick else 5) if runs is None else runs
        plan = _plan(experiments or ["all"], data, count, QUICK_ROWS if quick and rows is None else _parse_rows(rows))
        if jobs is not None:
            check_number("jobs", jobs, low=1, whole=True)
        check_writable(out, None)
        if not resume and any((out / "cells").glob("*.json")):
            raise InvalidValue("out", str(out), "a folder without finished cells, or --resume to reuse them")
        try:
            for name in plan.data:
                download(name, console)
            page = _run_with_progress(plan, out, (os.cpu_count() or 1) if jobs is None else jobs, console)
        except KeyboardInterrupt:
            console.print(f"[yellow]Interrupted[/]: finished cells are in {out}; continue with --resume.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
    console.print(f"Results in {out} (open {page})", highlight=False, markup=False, soft_wrap=True)


def _plan(experiments: list[str], data: str, runs: int, rows: int | None) -> "Plan":
    from alphaedge.experiments.plan import Plan

    check_number("runs", runs, low=1, whole=True)
    names = EXPERIMENTS if "all" in experiments else tuple(dict.fromkeys(experiments))
    data_sets = tuple(d.strip() for d in data.split(",") if d.strip())
    if not data_sets:
        raise InvalidValue("data", data, "one of " + ", ".join(PAPER_DATA_SETS))
    return Plan(experiments=names, data=data_sets, runs=runs, rows=rows)


def _parse_rows(rows: str | None) -> int | None:
    """None: the limits of each experiment. 0: all rows."""
    if rows is None:
        return None
    if rows == "all":
        return 0
    if not rows.isdigit() or int(rows) < 1:
        raise InvalidValue("rows", rows, "a whole number of at least 1, or all")
    return int(rows)


def _run_with_progress(plan: "Plan", out: Path, jobs: int, console: "Console") -> Path:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from alphaedge.experiments.reproduce import reproduce as run

    bar = Progress(
        BarColumn(),
        TextColumn("{task.percentage:.0f}%  {task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}"),
        console=console,
    )
    command = "alphaedge " + " ".join(sys.argv[1:])
    today, printed = datetime.date.today().isoformat(), -1
    with bar:
        line = bar.add_task("", total=1.0, cells="")

        def report(share: float, finished: int, cells: int, title: str) -> None:
            nonlocal printed
            bar.update(line, completed=share, cells=f"{finished} of {cells} cells", description=title)
            if not console.is_terminal and int(share * 20) > printed:  # a log has no bar: print a line per 5%
                printed = int(share * 20)
                left = bar.tasks[0].time_remaining
                rest = "" if left is None else f", about {datetime.timedelta(seconds=round(left))} left"
                console.print(f"{share:.0%}, {finished} of {cells} cells{rest}", highlight=False)

        return run(plan, out, jobs=jobs, report=report, command=command, date=today)
