"""``alphaedge demo``: a fleet that a person can watch."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from alphaedge.cli import dataset
from alphaedge.cli.certs import needs_serve
from alphaedge.cli.dataset import option
from alphaedge.errors import check_number
from alphaedge.simulation import config
from alphaedge.simulation.catalog import CATALOG

if TYPE_CHECKING:  # these need what the extra "serve" installs
    from alphaedge.demo.fleet import DemoFleet
    from alphaedge.demo.numbers import Numbers
    from alphaedge.demo.run import Played
    from alphaedge.demo.world import World

EXAMPLES = """[bold]Examples[/]

alphaedge demo

alphaedge demo --minutes 5 --keep

alphaedge demo --edges 4 --data movielens --out results/movielens

alphaedge demo --table examples/shops.csv --time when --edge shop --label sold --edges 3
"""
START, END = 25.0, 10.0  # seconds that starting the edges and the report take, about
INTERRUPTED = 130
MOST_PER_CORE = 4  # edges that a core bears, about
CACHE = "TORCHINDUCTOR_CACHE_DIR"
WIDTH = 120  # where there is no terminal to tell


def demo(
    edges: Annotated[int, typer.Option(help="How many edges; from 4 on there is a story.")] = 6,
    minutes: Annotated[float, typer.Option(help="How long it takes, about.")] = 2.0,
    out: Annotated[Path, typer.Option(help="Where the report goes.", metavar="DIR")] = Path("results/demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Go on serving at the end, until Ctrl-C.")] = False,
    calm: Annotated[bool, typer.Option("--calm", help="No story: nobody turns hostile, dies or is cut off.")] = False,
    data: Annotated[
        str | None, option("Another data set: " + ", ".join(CATALOG) + ". Default: a store made up for this.")
    ] = None,
    table: dataset.TableFile = None,
    time: dataset.Time = None,
    edge: dataset.Edge = None,
    label: dataset.Label = None,
    ids: dataset.Ids = None,
    categories: dataset.Categories = None,
    numbers: dataset.Numbers = None,
    task: dataset.Task = None,
    seed: Annotated[int, typer.Option(help="Of the synthetic store.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON at the end, nothing else.")] = False,
) -> None:
    """Watch a fleet: real edges on this machine learn from each other, and one of them turns hostile."""
    console = Console(stderr=json, width=None if sys.stdout.isatty() else WIDTH)
    with needs_serve():
        check_number("edges", edges, low=2, high=50, whole=True)
        check_number("minutes", minutes, above=0)
        check_number("seed", seed, low=0, whole=True)
        from alphaedge.demo.fleet import DemoFleet, cities
        from alphaedge.demo.run import MODEL
        from alphaedge.demo.world import store, world
        from alphaedge.errors import FleetError

        cores = os.cpu_count() or 1
        if edges > MOST_PER_CORE * cores:
            text = f"{edges} edges are many for {cores} cores: they start slowly, and learn behind what they are told"
            console.print(f"[yellow]note[/] {text}", highlight=False)
        seconds = max(20.0, 60 * minutes - START - END)
        wanted = dataset.chosen(
            data,
            file=table,
            time=time,
            edge=edge,
            label=label,
            ids=ids,
            categories=categories,
            numbers=numbers,
            task=task,
        )
        dataset.check_columns(table, time=time, edge=edge, label=label)
        if data in (None, "synthetic") and table is None:
            whole = store(edges, seconds, seed)
        else:
            whole = dataset.loaded(config.build(dataset.given(wanted)), console)
        made = world(whole, list(cities(edges)), MODEL, seconds)
        with (
            tempfile.TemporaryDirectory(prefix="alphaedge-demo-") as folder,
            _terminated(),
            _cache(folder),
            DemoFleet(Path(folder), cities(edges), model=made.model, method=made.method) as fleet,
        ):
            try:
                _watch(fleet, made, seconds, console, out=out, calm=calm, keep=keep, json=json)
            except FleetError as error:
                raise FleetError(f"{error}; logs: {fleet.save_logs(out / 'logs')}") from None


def _watch(
    fleet: "DemoFleet",
    made: "World",
    seconds: float,
    console: Console,
    *,
    out: Path,
    calm: bool,
    keep: bool,
    json: bool,
) -> None:
    from alphaedge.demo.numbers import learned_alone, numbers
    from alphaedge.demo.report import save
    from alphaedge.demo.world import BATCH

    fleet.start()
    names = list(fleet.regions)
    console.print(f"dashboard: {fleet.url(names[0])}/dashboard", highlight=False)
    played = asyncio.run(_played(fleet, made, seconds, console, calm=calm))
    if played is None or played.outcome.stopped:
        raise typer.Exit(INTERRUPTED)
    console.print("what the same edges reach without peers is computed ...", highlight=False)
    found = numbers(played, fleet.regions, learned_alone(made.data, made.streams, made.model, batch_size=BATCH))
    page = save(played, found, out)
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        _print(found, console)
    console.print(f"report: {page}", highlight=False)
    if keep:
        console.print("the edges go on serving; Ctrl-C ends them", highlight=False)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


async def _played(
    fleet: "DemoFleet", made: "World", seconds: float, console: Console, *, calm: bool
) -> "Played | None":
    from alphaedge.demo.run import Demonstration, pace
    from alphaedge.demo.screen import screen
    from alphaedge.demo.story import story
    from alphaedge.demo.world import BATCH

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    scenes = [] if calm else story(list(made.streams), made.alike)
    options = pace(made.streams, seconds=seconds, batch_size=BATCH, per_request=5)
    with screen(console) as show:
        whole = Demonstration(
            fleet, made.data, made.streams, seconds=seconds, scenes=scenes, options=options, show=show
        )
        return await whole.run(stop)


@contextlib.contextmanager
def _cache(folder: str) -> Iterator[None]:
    """torch makes a folder for what it compiles, though nothing is compiled here: it shall go with the rest."""
    before = os.environ.get(CACHE)
    os.environ.setdefault(CACHE, f"{folder}/torch")
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE]


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends this as Ctrl-C does, so that everything is cleared away."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(found: "Numbers", console: Console) -> None:
    from alphaedge.demo.report import COLUMNS, rows, sentences

    table = Table(title=f"{found.metric}: live edges beside edges without peers", box=box.SIMPLE_HEAD)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right")
    for row in rows(found):
        table.add_row(*row)
    console.print(table)
    for sentence in sentences(found):
        console.print(sentence, highlight=False)
