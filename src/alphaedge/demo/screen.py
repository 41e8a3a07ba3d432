"""Where a demonstration is shown: a live view in a terminal, lines in a file or a log."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.live import Live

from alphaedge.demo.run import Shot
from alphaedge.demo.view import happened, view

Show = Callable[[Shot], None]
OFTEN: Final = 0.25  # seconds between two pictures
SELDOM: Final = 10.0  # seconds between two lines on how it goes


@contextlib.contextmanager
def screen(console: Console) -> Iterator[Show]:
    """What takes a picture and shows it."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield _every(OFTEN, lambda shot: live.update(view(shot), refresh=True))
    else:
        yield _lines(console)


def _every(seconds: float, show: Show) -> Show:
    last = -seconds

    def now(shot: Shot) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            show(shot)

    return now


def _lines(console: Console) -> Show:
    """What happens, each once, and now and then how far it is."""
    told = 0
    phase = ""

    def how(shot: Shot) -> None:
        if shot.progress is not None and shot.phase == "traffic":
            batches = sum(seen.vitals.batches for seen in shot.watcher.state.values())
            sent = sum(e.events for e in shot.progress.edges.values())
            console.print(f"{shot.seconds:5.0f} s  {sent:,} events, {batches:,} batches learned", highlight=False)

    seldom = _every(SELDOM, how)

    def show(shot: Shot) -> None:
        nonlocal told, phase
        if shot.phase != phase:
            phase = shot.phase
            console.print(phase, highlight=False)
        news = happened(shot)
        for at, text, scene in news[told:]:
            moment = time.strftime("%H:%M:%S", time.localtime(at))
            console.print(f"{moment}  {'*** ' if scene else ''}{text}", highlight=False, markup=False)
        told = len(news)
        seldom(shot)

    return show
