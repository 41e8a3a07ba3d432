"""A demonstration on the terminal: a live table of the fleet with the story, or lines in a file or log."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from alphaedge.demo.run import DemoState
from alphaedge.demo.story import Story, StoryLine, tell
from alphaedge.monitoring.frames import FADED_SHARE
from alphaedge.monitoring.vitals import EdgeView
from alphaedge.scoring import mean

Show = Callable[[DemoState], None]
REDRAW_SECONDS: Final = 0.25
PROGRESS_LINE_SECONDS: Final = 10.0  # between two lines of progress, where there is no terminal
SHOWN_LINES: Final = 9


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
    return Group(_header(state), _fleet_table(state), _story_text(_story(state)))


def _story(state: DemoState) -> Story:
    return tell(state.incidents, state.watcher.events)


def _mean_gain(state: DemoState) -> float | None:
    """The mean gain over learning alone of the honest edges so far."""
    hostile = {incident.edge for _, incident in state.incidents if incident.kind == "hostile"}
    return mean([view.vitals.gain for name, view in state.watcher.state.items() if name not in hostile])


def _at_most_every(seconds: float, show: Show) -> Show:
    last = -seconds

    def show_sometimes(state: DemoState) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            show(state)

    return show_sometimes


def _line_printer(console: Console) -> Show:
    """Print each line of the story once, and the progress now and then."""
    printed: set[StoryLine] = set()
    phase = ""

    def print_progress(state: DemoState) -> None:
        if state.progress is not None and state.phase == "traffic":
            batches = sum(view.vitals.batches for view in state.watcher.state.values())
            sent = sum(e.events for e in state.progress.edges.values())
            gain = _mean_gain(state)
            worth = "" if gain is None else f", {gain:+.4f} over learning alone"
            text = f"{sent:,} events, {batches:,} batches learned{worth}, {_changes(_story(state))}"
            console.print(f"{state.seconds:5.0f} s    {text}", highlight=False)

    progress = _at_most_every(PROGRESS_LINE_SECONDS, print_progress)

    def show(state: DemoState) -> None:
        nonlocal phase
        title = state.phase.partition(":")[0]  # without the names of edges, which change often
        if title != phase:
            phase = title
            console.print(phase, highlight=False)
        for line in _story(state).lines:
            if line not in printed:
                printed.add(line)
                clock = time.strftime("%H:%M:%S", time.localtime(line.time))
                console.print(f"{clock}  {'*** ' if line.incident else ''}{line.text}", highlight=False, markup=False)
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
    for name in ("score", "gain over alone", "batches", "mixes", "p99 ms"):
        table.add_column(name, justify="right")
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
        "" if name in hostile or vitals.gain is None else f"{vitals.gain:+.4f}",
        f"{vitals.batches:,}",
        f"{vitals.aggregations:,}",
        _format(vitals.p99, 1),
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
    for peer in sorted(peer for peer, link in links.items() if link.excluded and peer in hostile):
        text.append(f"not {peer}  ", style="red")
    return text


def _story_text(story: Story) -> Text:
    text = Text()
    for line in story.lines[-SHOWN_LINES:]:
        text.append(time.strftime("%H:%M:%S  ", time.localtime(line.time)), style="dim")
        text.append(f"{line.text}\n", style="bold magenta" if line.incident else "")
    text.append(f"and {_changes(story)}", style="dim")
    return text


def _changes(story: Story) -> str:
    return f"{story.changes:,} changes of peers"


def _format(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
