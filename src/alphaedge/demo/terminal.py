"""A demonstration on the terminal: a live table of the fleet with its events, or lines in a file or log."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from alphaedge.demo.run import DemoState
from alphaedge.monitoring.frames import FADED_SHARE
from alphaedge.monitoring.vitals import EdgeView

Show = Callable[[DemoState], None]
REDRAW_SECONDS: Final = 0.25
PROGRESS_LINE_SECONDS: Final = 10.0  # between two lines of progress, where there is no terminal
SHOWN_EVENTS: Final = 9


@contextlib.contextmanager
def open_display(console: Console) -> Iterator[Show]:
    """Yield a function that shows the state of a demonstration."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield _at_most_every(REDRAW_SECONDS, lambda state: live.update(render(state), refresh=True))
    else:
        yield _line_printer(console)


def render(state: DemoState) -> RenderableType:
    """Return the state as a live view."""
    return Group(_header(state), _fleet_table(state), _event_list(state))


def timeline(state: DemoState) -> list[tuple[float, str, bool]]:
    """Return incidents and the fleet's events in order: time, sentence, and whether it is an incident."""
    incidents = [(at, incident.describe(), True) for at, incident in state.incidents]
    return sorted(incidents + [(event.time, event.describe(), False) for event in state.watcher.events])


def _at_most_every(seconds: float, show: Show) -> Show:
    last = -seconds

    def show_sometimes(state: DemoState) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            show(state)

    return show_sometimes


def _line_printer(console: Console) -> Show:
    """Print each event once, and the progress now and then."""
    printed = 0
    phase = ""

    def print_progress(state: DemoState) -> None:
        if state.progress is not None and state.phase == "traffic":
            batches = sum(view.vitals.batches for view in state.watcher.state.values())
            sent = sum(e.events for e in state.progress.edges.values())
            console.print(f"{state.seconds:5.0f} s  {sent:,} events, {batches:,} batches learned", highlight=False)

    progress = _at_most_every(PROGRESS_LINE_SECONDS, print_progress)

    def show(state: DemoState) -> None:
        nonlocal printed, phase
        if state.phase != phase:
            phase = state.phase
            console.print(phase, highlight=False)
        lines = timeline(state)
        for at, text, is_incident in lines[printed:]:
            clock = time.strftime("%H:%M:%S", time.localtime(at))
            console.print(f"{clock}  {'*** ' if is_incident else ''}{text}", highlight=False, markup=False)
        printed = len(lines)
        progress(state)

    return show


def _header(state: DemoState) -> RenderableType:
    if state.seconds_left is None and state.progress is None:
        return Text(state.phase, style="bold")
    left = state.seconds_left or 0.0
    header = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=max(state.seconds + left, 1e-9), completed=state.seconds, width=40)
    sent = sum(e.events for e in state.progress.edges.values()) if state.progress else 0
    header.add_row(Text(state.phase, style="bold"), bar, f"{left:.0f} s left", f"{sent:,} events")
    return header


def _fleet_table(state: DemoState) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=False)
    for name in ("edge", "", "state"):
        table.add_column(name)
    for name in ("score", "recent", "batches", "mixes", "pulled", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("own")
    table.add_column("learns from", min_width=34)
    hostile = {incident.edge for _, incident in state.incidents if incident.kind == "hostile"}
    for name in sorted(state.watcher.state):
        table.add_row(*_cells(name, state.watcher.state[name], hostile))
    return table


def _cells(name: str, view: EdgeView, hostile: set[str]) -> list[RenderableType]:
    vitals = view.vitals
    state = Text("hostile", style="bold red") if name in hostile else Text("learning", style="green")
    if not view.alive:
        state = Text("down", style="bold yellow")
    return [
        Text(name, style="bold"),
        Text(view.region, style="dim"),
        state,
        _format(vitals.score, 4),
        _format(vitals.recent, 4),
        f"{vitals.batches:,}",
        f"{vitals.aggregations:,}",
        decimal(sum(link.bytes for link in vitals.links.values())),
        _format(vitals.p50, 1),
        _format(vitals.p99, 1),
        f"{vitals.own_share:.2f}",
        _neighbours(view, hostile),
    ]


def _neighbours(view: EdgeView, hostile: set[str]) -> Text:
    links = view.vitals.links
    shares = {
        peer: links[peer].share if peer in links else 0.0
        for peer in view.vitals.neighbours
        if peer not in links or not links[peer].excluded
    }
    text = Text()
    for peer, share in sorted(shares.items(), key=lambda pair: -pair[1]):
        style = "red" if peer in hostile else "dim" if share < FADED_SHARE else "cyan"
        text.append(f"{peer} {share:.2f}  ", style=style)
    for peer in sorted(peer for peer, link in links.items() if link.excluded):
        text.append(f"{peer} excluded  ", style="red" if peer in hostile else "dim")
    return text


def _event_list(state: DemoState) -> Text:
    text = Text()
    for at, sentence, is_incident in timeline(state)[-SHOWN_EVENTS:]:
        text.append(time.strftime("%H:%M:%S  ", time.localtime(at)), style="dim")
        text.append(f"{sentence}\n", style="bold magenta" if is_incident else "")
    return text


def _format(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
