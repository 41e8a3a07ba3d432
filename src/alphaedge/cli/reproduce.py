"""``alphaedge reproduce``: the paper's tables and figures on public data, beside its numbers."""

import datetime
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from alphaedge.cli.download import fetched
from alphaedge.errors import AlphaEdgeError, InvalidValue, check_number
from alphaedge.experiments.plan import DATA, EXPERIMENTS, Plan
from alphaedge.simulation.results import writable

EXAMPLES = """[bold]Examples[/]

alphaedge reproduce table1 --quick

alphaedge reproduce all --runs 5 --out results/paper

alphaedge reproduce table3 delay --data movielens,airquality --resume
"""

QUICK_ROWS = 40_000


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXPERIMENT]...", help="all, or some of " + ", ".join(EXPERIMENTS) + "."),
    ] = None,
    data: Annotated[str, typer.Option(help="Data sets, comma-separated.", metavar="NAME,...")] = ",".join(DATA),
    runs: Annotated[
        int | None, typer.Option(help="Runs (seeds) of every cell. Default: 5, and 1 with --quick.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="At most so many rows of a data set, or all. Default: the rule that the page states."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_ROWS:,} rows of each data set: a look, not a result.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the finished cells of --out.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, pictures and finished cells.", metavar="DIR")] = Path(
        "results/paper"
    ),
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.")] = None,
) -> None:
    """Regenerate every table and figure of the paper on public data, with its numbers beside."""
    console = Console()
    try:
        count = (1 if quick else 5) if runs is None else runs
        plan = _plan(experiments or ["all"], data, count, QUICK_ROWS if quick and rows is None else _rows(rows))
        if jobs is not None:
            check_number("jobs", jobs, low=1, whole=True)
        writable(out)
        if not resume and any((out / "cells").glob("*.json")):
            raise InvalidValue("out", str(out), "a folder without finished cells, or --resume to go on with them")
        for name in plan.data:
            fetched(name, console)
        page = _watched(plan, out, (os.cpu_count() or 1) if jobs is None else jobs, console)
    except AlphaEdgeError as error:
        typer.echo(f"error {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.print(f"[yellow]Interrupted[/]: finished cells are in {out}; --resume goes on.")
        raise typer.Exit(130) from None
    console.print(f"Results in {out} (open {page})", highlight=False, markup=False, soft_wrap=True)


def _plan(experiments: list[str], data: str, runs: int, rows: int | None) -> Plan:
    check_number("runs", runs, low=1, whole=True)
    names = EXPERIMENTS if "all" in experiments else tuple(dict.fromkeys(experiments))
    sets = tuple(d.strip() for d in data.split(",") if d.strip())
    if not sets:
        raise InvalidValue("data", data, "one of " + ", ".join(DATA))
    return Plan(experiments=names, data=sets, runs=runs, rows=rows)


def _rows(rows: str | None) -> int | None:
    if rows is None:
        return None
    if rows == "all":
        return 0
    if not rows.isdigit() or int(rows) < 1:
        raise InvalidValue("rows", rows, "a whole number of at least 1, or all")
    return int(rows)


def _watched(plan: Plan, out: Path, jobs: int, console: Console) -> Path:
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
    today, said = datetime.date.today().isoformat(), -1
    with bar:
        line = bar.add_task("", total=1.0, cells="")

        def report(share: float, finished: int, cells: int, title: str) -> None:
            nonlocal said
            bar.update(line, completed=share, cells=f"{finished} of {cells} cells", description=title)
            if not console.is_terminal and int(share * 20) > said:  # a log has no bar: a line now and then instead
                said = int(share * 20)
                left = bar.tasks[0].time_remaining
                rest = "" if left is None else f", about {datetime.timedelta(seconds=round(left))} left"
                console.print(f"{share:.0%}, {finished} of {cells} cells{rest}", highlight=False)

        # Here, since it draws: no other command should wait for what that needs.
        from alphaedge.experiments.reproduce import reproduce as run

        return run(plan, out, jobs=jobs, report=report, command=command, date=today)
