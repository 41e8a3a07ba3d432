"""The progress of work in phases: a bar for each, or a line now and then where there is no terminal."""

from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

T = TypeVar("T")
Report = Callable[[str, float, str], None]  # a phase, the share of it that is done, and a line about it


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
            if not console.is_terminal and int(share * 5) > printed.get(phase, -1):  # a log has no bar
                printed[phase] = int(share * 5)
                console.print(f"{phase} {share:.0%}: {line}", highlight=False)

        return run(report)
