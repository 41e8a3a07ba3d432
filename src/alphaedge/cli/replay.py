"""``alphaedge replay``: stream a data set to running edges, and say how well and how fast they answered."""

import asyncio
import contextlib
import selectors
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from alphaedge.cli import dataset
from alphaedge.cli.certs import needs_serve
from alphaedge.cli.dataset import TABLE, option
from alphaedge.data.stream import Dataset, Stream
from alphaedge.errors import InvalidValue
from alphaedge.replay.assignment import assign
from alphaedge.replay.model_section import model_section
from alphaedge.replay.pace import Delay, Options, duration, speed
from alphaedge.simulation import config
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.results import writable

if TYPE_CHECKING:  # these need what the extra "serve" installs
    from alphaedge.inference.client import EdgeClient
    from alphaedge.replay.result import ReplayResult

EXAMPLES = """[bold]Examples[/]

alphaedge replay --data movielens --print-config      (a \\[model] for edge.toml)

alphaedge replay http://127.0.0.1:8080 --data movielens

alphaedge replay http://127.0.0.1:8080 --table sales.csv --time day --edge shop --label sold --map berlin=http://127.0.0.1:8080

alphaedge replay http://127.0.0.1:8080 http://127.0.0.1:8081 --speed 1000x --delay exp:1h --out results/replay

alphaedge replay https://berlin.example.com --token-file token.txt --authority certs/ca.pem --json -
"""

DAY, WEEK = 86_400.0, 604_800.0
# Seconds in a unit of time, where it is not one second. The synthetic store's run is taken for a day.
UNITS: Final = {"synthetic": DAY, "tafeng": DAY, "tafeng-areas": DAY} | dict.fromkeys(
    ("completejourney", "completejourney-stores"), WEEK
)
_DATA, _LOAD = "What is sent", "How it is sent"
INTERRUPTED: Final = 130
SOCKETS: Final = 500  # that select() can take for sure


def replay(
    urls: Annotated[
        list[str] | None, typer.Argument(help="Addresses of edges, one for each edge of the data.", metavar="URL")
    ] = None,
    data: Annotated[
        str | None, option("Data set: " + ", ".join(CATALOG) + ". Default: synthetic.", panel=_DATA)
    ] = None,
    mapped: Annotated[
        list[str] | None, option("Which edge of the data goes where.", "--map", panel=_DATA, metavar="EDGE=URL")
    ] = None,
    rows: Annotated[int | None, option("At most so many events, those after the first quarter.", panel=_DATA)] = None,
    edges: Annotated[int | None, option("Edges of the synthetic store. Default: 24.", panel=_DATA)] = None,
    events: Annotated[int | None, option("Events per edge of the synthetic store.", panel=_DATA)] = None,
    batch_size: Annotated[
        int | None, option("Events per batch that is scored. Default: what suits the data.", panel=_DATA)
    ] = None,
    table: dataset.TableFile = None,
    time: dataset.Time = None,
    edge: dataset.Edge = None,
    label: dataset.Label = None,
    ids: dataset.Ids = None,
    categories: dataset.Categories = None,
    numbers: dataset.Numbers = None,
    task: dataset.Task = None,
    time_unit: Annotated[
        str | None,
        option("What 1 is where times are numbers: 1s, 1d. Default: 1s.", panel=TABLE, metavar="TIME"),
    ] = None,
    pace: Annotated[
        str,
        option("100x: times as fast as it was; max: as fast as answers come. Default: max.", "--speed", panel=_LOAD),
    ] = "max",
    delay: Annotated[
        str, option("When outcomes are known, in the data's time: 0, 5m, exp:1h. Default: 0.", panel=_LOAD)
    ] = "0",
    connections: Annotated[int, option("To each edge. Default: 4.", panel=_LOAD)] = 4,
    per_request: Annotated[int, option("Events in a request. Default: 10.", panel=_LOAD)] = 10,
    limit_seconds: Annotated[
        float | None,
        option("Ask for nothing more after so long; tell what is owed.", panel=_LOAD, metavar="SECONDS"),
    ] = None,
    patience: Annotated[
        float,
        option("How long a request waits for an edge that is down. Default: 30.", panel=_LOAD, metavar="SECONDS"),
    ] = 30.0,
    model: Annotated[str | None, option("The model's name, if an edge does not tell.", panel=_LOAD)] = None,
    token_file: Annotated[
        Path | None, option("A file with the token that edges want.", panel=_LOAD, metavar="FILE")
    ] = None,
    authority: Annotated[
        Path | None, option("The certificate to trust, of HTTPS edges.", panel=_LOAD, metavar="FILE")
    ] = None,
    json: Annotated[
        Path | None, option("Write the outcome here ('-': print it, nothing else).", metavar="FILE")
    ] = None,
    out: Annotated[Path | None, option("Folder for summary.json and replay.png.", metavar="DIR")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print a \\[model] for edge.toml that fits the data, and do no more.")
    ] = False,
) -> None:
    """Stream a data set or a table to running edges, tell them later what came of it, and score their answers.

    With a speed, requests leave when it is their time, and latency counts from that moment. Ids and categories of a
    table are sent as the numbers that they get when it is read.

    Exits with 0 if everything was delivered, 1 if not, 2 if it could not start and 130 if it was interrupted.
    """
    silent = str(json) == "-" or print_config
    console = Console(stderr=silent)
    wanted = dataset.chosen(
        data, file=table, time=time, edge=edge, label=label, ids=ids, categories=categories, numbers=numbers, task=task
    ) | {"batch_size": batch_size, "store": {"edges": edges, "events": events}}
    with needs_serve():
        options = Options(
            speed=speed(pace),
            delay=Delay.parse(delay),
            per_request=per_request,
            connections=connections,
            patience=patience,
            limit_seconds=limit_seconds,
        )
        dataset.check_columns(table, time=time, edge=edge, label=label)
        settings = config.build(dataset.given(wanted))
        unit = duration("time_unit", time_unit) if time_unit is not None else UNITS.get(settings.data, 1.0)
        options = replace(options, batch_size=settings.size, unit=unit)
        if rows is not None and rows < 1:
            raise InvalidValue("rows", rows, "a whole number of at least 1")
        whole = dataset.loaded(settings, console)
        if print_config:
            fits = model_section(whole, name=model or "model", batch_size=settings.size, rate=settings.base.rate)
            sys.stdout.write(fits)
            return
        where = assign(whole.edge_names, urls or [], mapped or [])
        parts = _parts(whole, list(where), rows)
        for name, url in where.items():
            console.print(f"{name} -> {url}, {len(parts[name]):,} events", highlight=False, markup=False)
        if out is not None:
            writable(out)
        if json is not None and str(json) != "-":
            writable(json.parent)
            if json.is_dir():
                raise InvalidValue("json", str(json), "a file, or - to print")
        token = token_file.read_bytes().decode(errors="replace").strip() if token_file is not None else None
        from alphaedge.inference.client import EdgeClient

        clients = {n: EdgeClient(url, model=model, token=token, authority=authority) for n, url in where.items()}
        with asyncio.Runner(loop_factory=_loop if len(clients) * connections < SOCKETS else None) as runner:
            found = runner.run(_replayed(whole, parts, clients, options, console))
        _shown(found, console, json, out)
    if found.stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if found.delivered else 1)


def _loop() -> asyncio.AbstractEventLoop:
    """A loop that wakes on time: epoll, which is the default, rounds up to whole milliseconds, and latency has that."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _parts(data: Dataset, names: list[str], rows: int | None) -> dict[str, Stream]:
    """The events of some edges."""
    by_name = dict(zip(data.edge_names, data.streams, strict=True))
    some = replace(data, streams=tuple(by_name[n] for n in names), names=None, clusters=None).window(rows)
    return dict(zip(names, some.streams, strict=True))


async def _replayed(
    data: Dataset, parts: Mapping[str, Stream], clients: Mapping[str, "EdgeClient"], options: Options, console: Console
) -> "ReplayResult":
    """Check that the edges fit the data, then send it; Ctrl-C ends it with what came so far."""
    from alphaedge.replay.fit import check_fit
    from alphaedge.replay.run import replay as run
    from alphaedge.replay.show import Bar

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        for client in clients.values():
            await stack.enter_async_context(client)
            check_fit(client.url, data.fields, data.task, await client.metadata())
            await client.check_token()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # where there are no such signals
                loop.add_signal_handler(number, stop.set)
        with Bar(console, data.metric) as bar:
            return await run(parts, clients, options, task=data.task, on_progress=bar.show, stop=stop)


def _shown(found: "ReplayResult", console: Console, json: Path | None, out: Path | None) -> None:
    from alphaedge.replay.figures import save_all
    from alphaedge.replay.show import table

    if str(json) == "-":
        sys.stdout.write(found.json().decode() + "\n")
    else:
        console.print(table(found))
        if json is not None:
            json.write_bytes(found.json())
    for note in found.notes:
        console.print(f"[yellow]note[/] {escape(note)}", highlight=False, soft_wrap=True)
    if out is not None:
        save_all(found, out)
        console.print(f"Results in {out}", highlight=False, markup=False, soft_wrap=True)
