"""The progress of many cells: a bar with the time left, or a line now and then where there is no terminal."""

import datetime
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from alphaedge.experiments.run_cells import Report

T = TypeVar("T")


def with_progress(console: Console, run: Callable[[Report], T]) -> T:
    """Call ``run`` with what reports its progress."""
    bar = Progress(
        BarColumn(),
        TextColumn("{task.percentage:.0f}%  {task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}"),
        console=console,
    )
    printed = -1
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

        return run(report)
