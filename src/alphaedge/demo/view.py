"""A demonstration in the terminal: the fleet as a table that lives, and what happens below it."""

import time
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from alphaedge.demo.run import Shot
from alphaedge.monitoring.frames import FADED, Event
from alphaedge.monitoring.vitals import EdgeView

LINES: Final = 9  # of what happened
WORDS: Final = {
    "joined": "has joined",
    "left": "does not answer any more",
    "back": "is back",
    "linked": "now learns from {peer}",
    "unlinked": "lets {peer} go",
    "faded": "does not listen to {peer} any more",
    "refused": "refuses the model of {peer}",
    "schema": "{text}",
    "note": "{text}",
}


def view(shot: Shot) -> RenderableType:
    """What is to be seen now."""
    return Group(_head(shot), _fleet(shot), _happened(shot))


def words(event: Event) -> str:
    """An event as a sentence."""
    return f"{event.edge} {WORDS[event.kind].format(peer=event.peer, text=event.text)}"


def _head(shot: Shot) -> RenderableType:
    if shot.left is None and shot.progress is None:
        return Text(shot.phase, style="bold")
    left = shot.left or 0.0
    head = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=max(shot.seconds + left, 1e-9), completed=shot.seconds, width=40)
    sent = sum(e.events for e in shot.progress.edges.values()) if shot.progress else 0
    head.add_row(Text(shot.phase, style="bold"), bar, f"{left:.0f} s left", f"{sent:,} events")
    return head


def _fleet(shot: Shot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=False)
    for name in ("edge", "", "state"):
        table.add_column(name)
    for name in ("score", "lately", "batches", "mixes", "pulled", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("own")
    table.add_column("learns from", min_width=34)
    hostile = {scene.edge for _, scene in shot.played if scene.kind == "hostile"}
    for name in sorted(shot.watcher.state):
        table.add_row(*_row(name, shot.watcher.state[name], hostile))
    return table


def _row(name: str, seen: EdgeView, hostile: set[str]) -> list[RenderableType]:
    vitals = seen.vitals
    state = Text("hostile", style="bold red") if name in hostile else Text("learns", style="green")
    if not seen.alive:
        state = Text("dark", style="bold yellow")
    return [
        Text(name, style="bold"),
        Text(seen.region, style="dim"),
        state,
        _number(vitals.score, 4),
        _number(vitals.recent, 4),
        f"{vitals.batches:,}",
        f"{vitals.aggregations:,}",
        decimal(sum(link.bytes for link in vitals.links.values())),
        _number(vitals.p50, 1),
        _number(vitals.p99, 1),
        f"{vitals.own_share:.2f}",
        _peers(seen, hostile),
    ]


def _peers(seen: EdgeView, hostile: set[str]) -> Text:
    found = Text()
    links = seen.vitals.links
    for peer in sorted(seen.vitals.neighbours, key=lambda p: -(links[p].share if p in links else 0.0)):
        share = links[peer].share if peer in links else 0.0
        style = "red" if peer in hostile else "dim" if share < FADED else "cyan"
        found.append(f"{peer} {share:.2f}  ", style=style)
    return found


def happened(shot: Shot) -> list[tuple[float, str, bool]]:
    """The story and what the fleet made of it, in order: moment, words, whether it is the story."""
    told = [(at, scene.text, True) for at, scene in shot.played]
    return sorted(told + [(event.time, words(event), False) for event in shot.watcher.events])


def _happened(shot: Shot) -> Text:
    found = Text()
    for at, text, scene in happened(shot)[-LINES:]:
        found.append(time.strftime("%H:%M:%S  ", time.localtime(at)), style="dim")
        found.append(f"{text}\n", style="bold magenta" if scene else "")
    return found


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
