"""A replay on the terminal: progress bars while it runs, a table at the end."""

from types import TracebackType
from typing import Final, final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from alphaedge.replay.result import Latency, Measurements, ReplayResult
from alphaedge.replay.run import EdgeProgress, Progress

MAX_EDGE_BARS: Final = 12  # with more edges there is one bar for all
MAX_NAME_LENGTH: Final = 14


@final
class ProgressBars:
    """A bar for each edge with its score and recent latency, and one for all edges with the time left."""

    def __init__(self, console: Console, metric: str) -> None:
        self._metric = metric
        self._tasks: dict[str, TaskID] = {}
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=14),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[text]}"),
            console=console,
        )

    def __enter__(self) -> "ProgressBars":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, progress: Progress) -> None:
        """Show the progress of a replay."""
        edges = progress.edges
        left = "" if progress.seconds_left is None else f"{format_duration(progress.seconds_left)} left"
        parts = [left, self._format_score(progress.score)]
        parts += [f"[red]{failed:,} failed[/]"] if (failed := sum(e.failures for e in edges.values())) else []
        self._update("", sum(e.planned for e in edges.values()), sum(e.events for e in edges.values()), _join(parts))
        for name, edge in edges.items() if len(edges) <= MAX_EDGE_BARS else ():
            self._update(name, edge.planned, edge.events, _join(self._describe(edge)))

    def _describe(self, edge: EdgeProgress) -> list[str]:
        parts = [self._format_score(edge.score), format_percentiles(edge.latency)]
        return ["[red]no answer[/]", *parts] if edge.is_down else parts

    def _format_score(self, score: float | None) -> str:
        return "" if score is None else f"{self._metric} {score:.3f}"

    def _update(self, name: str, total: int, done: int, text: str) -> None:
        if name not in self._tasks:
            description = escape(shorten(name)) if name else "all edges"
            self._tasks[name] = self._bars.add_task(description, total=total, text="")
        self._bars.update(self._tasks[name], total=total, completed=done, text=text)


def result_table(result: ReplayResult) -> Table:
    """Return a table of the numbers of each edge and of all, at most 80 columns wide."""
    table = Table(
        title=f"{result.metric}, and latency of predictions in milliseconds",
        title_justify="left",
        caption=_caption(result),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    columns = ("edge", "events", result.metric, "pooled", "req/s", "p50", "p95", "p99", "max", "failed", "unsent")
    for column in columns:
        table.add_column(column, justify="left" if column == "edge" else "right", no_wrap=True)
    for edge in result.edges:
        table.add_row(escape(shorten(edge.edge)), *_cells(edge))
    if len(result.edges) > 1:
        table.add_section()
        table.add_row("all", *_cells(result.total))
    return table


def _caption(result: ReplayResult) -> str:
    feedback = result.total.feedback
    counts = {name: getattr(feedback, name) for name in ("accepted", "known", "expired", "unknown")}
    labels = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "accepted")
    since = "sent" if result.speed is None else "planned"
    return (
        f"labels: {labels}; latency from when a request was {since}; {result.seconds:.1f} s; "
        "unsent: labels not delivered"
    )


def _cells(numbers: Measurements) -> list[str]:
    latency = numbers.latency
    return [
        f"{numbers.events:,}",
        *("-" if s is None else f"{s:.4f}" for s in (numbers.score, numbers.pooled)),
        f"{numbers.per_second:,.0f}" if numbers.per_second >= 10 else f"{numbers.per_second:.1f}",
        *("-" if p is None else format_milliseconds(p) for p in (latency.p50, latency.p95, latency.p99, latency.max)),
        f"{numbers.failures:,}",
        f"{numbers.feedback.undelivered:,}",
    ]


def format_percentiles(latency: Latency) -> str:
    """Return p50, p95 and p99 in a few characters."""
    if latency.p50 is None or latency.p95 is None or latency.p99 is None:
        return ""
    return "/".join(format_milliseconds(p) for p in (latency.p50, latency.p95, latency.p99)) + " ms"


def format_milliseconds(value: float) -> str:
    """Return two significant digits or whole milliseconds; thousands beyond 10,000.

    >>> format_milliseconds(1.234), format_milliseconds(45.6), format_milliseconds(12_345)
    ('1.2', '46', '12k')
    """
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}" if value < 10_000 else f"{value / 1000:.0f}k"


def format_duration(seconds: float) -> str:
    """Return hours, minutes and seconds.

    >>> format_duration(75), format_duration(3725)
    ('1:15', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def shorten(name: str) -> str:
    """Return a name that fits a column."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def _join(parts: list[str]) -> str:
    return "  ".join(part for part in parts if part)
