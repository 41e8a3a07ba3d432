"""A replay on the terminal: a bar while it runs, a table at the end."""

from types import TracebackType
from typing import Final, final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table

from alphaedge.replay.result import EdgeResult, Figures, Latency, ReplayResult
from alphaedge.replay.run import EdgeProgress, Progress

MOST_LINES: Final = 12  # edges that have a line of their own
WIDEST: Final = 14  # characters of an edge's name


@final
class Bar:
    """The bar: of each edge how far it is, its score so far and its latencies lately; of all the time left."""

    def __init__(self, console: Console, metric: str) -> None:
        self._metric = metric
        self._lines: dict[str, TaskID] = {}
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=14),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[text]}"),
            console=console,
        )

    def __enter__(self) -> "Bar":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        """Take in how far it is."""
        edges = progress.edges
        left = "" if progress.left is None else f"{clock(progress.left)} left"
        parts = [left, self._score(progress.score)]
        parts += [f"[red]{failed:,} failed[/]"] if (failed := sum(e.failures for e in edges.values())) else []
        self._line("", sum(e.planned for e in edges.values()), sum(e.events for e in edges.values()), _joined(parts))
        for name, edge in edges.items() if len(edges) <= MOST_LINES else ():
            self._line(name, edge.planned, edge.events, _joined(self._told(edge)))

    def _told(self, edge: EdgeProgress) -> list[str]:
        parts = [self._score(edge.score), percentiles(edge.latency)]
        return ["[red]does not answer[/]", *parts] if edge.down else parts

    def _score(self, score: float | None) -> str:
        return "" if score is None else f"{self._metric} {score:.3f}"

    def _line(self, name: str, total: int, done: int, text: str) -> None:
        if name not in self._lines:
            shown = escape(short(name)) if name else "all edges"
            self._lines[name] = self._bars.add_task(shown, total=total, text="")
        self._bars.update(self._lines[name], total=total, completed=done, text=text)


def table(outcome: ReplayResult) -> Table:
    """The figures of each edge and of all; fits 80 columns."""
    made = Table(
        title=f"{outcome.metric}, and latency of predictions in milliseconds",
        title_justify="left",
        caption=_caption(outcome) + "; owed: outcomes not told",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    columns = ("edge", "events", outcome.metric, "pooled", "req/s", "p50", "p95", "p99", "max", "failed", "owed")
    for column in columns:
        made.add_column(column, justify="left" if column == "edge" else "right", no_wrap=True)
    for edge in outcome.edges:
        made.add_row(escape(short(edge.edge)), *_cells(edge))
    if len(outcome.edges) > 1:
        made.add_section()
        made.add_row("all", *_cells(outcome.total))
    return made


def _caption(outcome: ReplayResult) -> str:
    told = outcome.total.feedback
    counts = {name: getattr(told, name) for name in ("accepted", "known", "expired", "unknown")}
    loop = "from when they were sent" if outcome.speed is None else "from when they were to be sent"
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "accepted")
    return f"outcomes told: {words}; latency {loop}; {outcome.seconds:.1f} s"


def _cells(of: Figures | EdgeResult) -> list[str]:
    latency = [of.latency.p50, of.latency.p95, of.latency.p99, of.latency.max]
    return [
        f"{of.events:,}",
        *("-" if s is None else f"{s:.4f}" for s in (of.score, of.pooled)),
        f"{of.per_second:,.0f}" if of.per_second >= 10 else f"{of.per_second:.1f}",
        *("-" if s is None else milliseconds(s) for s in latency),
        f"{of.failures:,}",
        f"{of.feedback.undelivered:,}",
    ]


def percentiles(latency: Latency) -> str:
    """Three percentiles in a few characters."""
    if latency.p50 is None or latency.p95 is None or latency.p99 is None:
        return ""
    return "/".join(milliseconds(p) for p in (latency.p50, latency.p95, latency.p99)) + " ms"


def milliseconds(value: float) -> str:
    """As few digits as say something.

    >>> milliseconds(1.234), milliseconds(45.6), milliseconds(12_345)
    ('1.2', '46', '12k')
    """
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}" if value < 10_000 else f"{value / 1000:.0f}k"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short(name: str) -> str:
    """A name that does not break a table."""
    return name if len(name) <= WIDEST else name[: WIDEST - 1] + "…"


def _joined(parts: list[str]) -> str:
    return "  ".join(part for part in parts if part)
