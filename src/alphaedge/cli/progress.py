"""The progress of long work, in one phase or several: a bar for each with the time left, or lines in a log."""

import datetime
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from alphaedge.experiments.run_cells import Report as CellsReport

T = TypeVar("T")
Report = Callable[[str, float, str], None]  # a phase, the share of it that is done, and a line about it
LINES: Final = 20  # that a phase has in a log, which has no bar


def with_phases(console: Console, run: Callable[[Report], T]) -> T:
    """Call ``run`` with what reports its progress."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[line]}"),
        console=console,
    )
    phases: dict[str, Any] = {}
    printed: dict[str, int] = {}
    with bar:

        def report(phase: str, share: float, line: str) -> None:
            if phase not in phases:
                for done in phases.values():
                    bar.update(done, completed=1.0)
                phases[phase] = bar.add_task(phase, total=1.0, line="")
            bar.update(phases[phase], completed=share, line=line)
            if not console.is_terminal and int(share * LINES) > printed.get(phase, -1):
                printed[phase] = int(share * LINES)
                left = bar.tasks[list(phases).index(phase)].time_remaining
                rest = "" if left is None else f", about {datetime.timedelta(seconds=round(left))} left"
                console.print(f"{phase} {share:.0%}, {line}{rest}".strip(), highlight=False)

        return run(report)


def with_cells(console: Console, run: Callable[[CellsReport], T]) -> T:
    """Call ``run`` with what reports the progress of many cells."""

    def told(report: Report) -> T:
        return run(lambda share, done, cells, title: report("", share, f"{done} of {cells} cells {title}".rstrip()))

    return with_phases(console, told)
