"""``alphaedge replay``: stream a data set to running edges and measure how well and how fast they answer."""

import contextlib
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli import options as shared
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.choices import DATA_SETS
from alphaedge.cli.options import DATA_HELP, TABLE_PANEL, option
from alphaedge.cli.status import read_token
from alphaedge.errors import check_number

if TYPE_CHECKING:
    import asyncio

    from rich.console import Console

    from alphaedge.data.stream import Dataset, Stream
    from alphaedge.inference.client import EdgeClient
    from alphaedge.replay.options import ReplayOptions
    from alphaedge.replay.result import ReplayResult

EXAMPLES = """[bold]Examples[/]

alphaedge replay --fleet fleet --table new-sales.csv

alphaedge replay --data movielens --print-config      (a \\[model] for edge.toml)

alphaedge replay http://127.0.0.1:8080 --data movielens

alphaedge replay http://127.0.0.1:8080 --table sales.csv --time day --edge shop --label sold --map berlin=http://127.0.0.1:8080

alphaedge replay http://127.0.0.1:8080 http://127.0.0.1:8081 --speed 1000x --delay exp:1h --out results/replay

alphaedge replay https://berlin.example.com --token-file token.txt --authority certs/ca.pem --json -
"""
DAY, WEEK = 86_400.0, 604_800.0
# Seconds per unit of a data set's times, where that is not a second. Synthetic data sets run from 0 to 1: a day.
TIME_UNIT_SECONDS: Final = {
    **dict.fromkeys(("synthetic", *(name for name in DATA_SETS if name.startswith("world-"))), DAY),
    **dict.fromkeys(("tafeng", "tafeng-areas"), DAY),
    **dict.fromkeys(("completejourney", "completejourney-stores"), WEEK),
}
MAX_SELECT_SOCKETS: Final = 500  # select() takes file descriptors below 1024 only
_DATA, _LOAD = "Data", "Load"


def replay(
    context: typer.Context,
    urls: Annotated[
        list[str] | None, typer.Argument(help="Addresses of edges, one for each edge of the data.", metavar="URL")
    ] = None,
    fleet: Annotated[
        Path | None,
        option(
            "A folder of `alphaedge fleet init`: its edges get the events of their regions. "
            "--table names the events, with the columns that the simulation had.",
            panel=_DATA,
            metavar="DIR",
        ),
    ] = None,
    data: Annotated[str | None, option(f"{DATA_HELP} Default: synthetic.", panel=_DATA)] = None,
    mapped: Annotated[
        list[str] | None,
        option("Send the events of an edge of the data to this address.", "--map", panel=_DATA, metavar="EDGE=URL"),
    ] = None,
    rows: Annotated[
        int | None, option("Send at most this many events, those after the first quarter. Default: all.", panel=_DATA)
    ] = None,
    edges: Annotated[int | None, option("Edges of the synthetic data set. Default: 24.", panel=_DATA)] = None,
    events: Annotated[
        int | None, option("Events per edge of the synthetic data set. Default: 20000.", panel=_DATA)
    ] = None,
    batch_size: Annotated[int | None, option("Events per scored batch. Default: the data set's.", panel=_DATA)] = None,
    table: shared.TableFile = None,
    time: shared.Time = None,
    edge: shared.Edge = None,
    label: shared.Label = None,
    ids: shared.Ids = None,
    categories: shared.Categories = None,
    numbers: shared.Numbers = None,
    only: shared.Only = False,
    last: shared.Last = None,
    task: shared.Task = None,
    time_unit: Annotated[
        str | None,
        option("Unit of times that are numbers, such as 1s or 1d. Default: 1s.", panel=TABLE_PANEL, metavar="TIME"),
    ] = None,
    pace: Annotated[
        str,
        option("100x: 100 times real time; max: as fast as answers come. Default: max.", "--speed", panel=_LOAD),
    ] = "max",
    delay: Annotated[
        str, option("Time until feedback, in the data's time: 0, 5m, exp:1h. Default: 0.", panel=_LOAD)
    ] = "0",
    connections: Annotated[int, option("Connections to each edge. Default: 4.", panel=_LOAD)] = 4,
    per_request: Annotated[int, option("Events per request. Default: 10.", panel=_LOAD)] = 10,
    limit_seconds: Annotated[
        float | None,
        option("Stop predictions after this time, send the feedback that is due.", panel=_LOAD, metavar="SECONDS"),
    ] = None,
    patience: Annotated[
        float,
        option("How long a request waits for an edge that is down. Default: 30.", panel=_LOAD, metavar="SECONDS"),
    ] = 30.0,
    model: Annotated[str | None, option("Name of the model, if an edge does not report it.", panel=_LOAD)] = None,
    token_file: Annotated[
        Path | None,
        option(
            "File with the token that the edges ask for. Default with --fleet: that of each folder.",
            panel=_LOAD,
            metavar="FILE",
        ),
    ] = None,
    authority: Annotated[
        Path | None, option("Certificate of the authority to trust.", panel=_LOAD, metavar="FILE")
    ] = None,
    json: Annotated[
        Path | None, option("Write the result to this file; - prints it and nothing else.", metavar="FILE")
    ] = None,
    out: Annotated[Path | None, option("Folder for summary.json and replay.png.", metavar="DIR")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print a \\[model] for edge.toml that fits the data, and exit.")
    ] = False,
) -> None:
    """Stream a data set or a table to running edges, report the labels as feedback, and score the answers.

    With a speed, each request leaves at its own time, and latency counts from that moment. A table's ids and
    categories are sent as they are.

    Exits with 0 if everything was delivered, 1 if not, 2 if it could not start and 130 if it was interrupted.
    """
    import asyncio

    from rich.console import Console

    from alphaedge.cli import dataset
    from alphaedge.cli.output import check_writable, prints_json
    from alphaedge.fleet.data import open_fleet
    from alphaedge.replay.assignment import assign
    from alphaedge.replay.model_section import model_section
    from alphaedge.replay.options import Delay, ReplayOptions, parse_duration, parse_speed
    from alphaedge.simulation import config

    console = Console(stderr=prints_json(json) or print_config)
    overrides = dataset.drop_unset(
        dataset.data_settings(context.params) | {"batch_size": batch_size, "store": {"edges": edges, "events": events}}
    )
    with exit_on_error():
        known = open_fleet(fleet) if fleet is not None else None
        if known is not None:
            overrides, model = known.settings(overrides), model or known.fleet.model
        options = ReplayOptions(
            speed=parse_speed(pace),
            delay=Delay.parse(delay),
            per_request=per_request,
            connections=connections,
            patience=patience,
            limit_seconds=limit_seconds,
        )
        dataset.check_table(overrides)
        settings = config.build(overrides)
        if settings.table is not None:
            settings = settings.resolved()
        unit = parse_duration("time_unit", time_unit) if time_unit is not None else None
        options = replace(
            options, batch_size=settings.size, time_unit=unit or TIME_UNIT_SECONDS.get(settings.data, 1.0)
        )
        if rows is not None:
            check_number("rows", rows, low=1, whole=True)
        events_of_all = dataset.load_dataset(settings, console)
        if print_config:
            section = model_section(
                events_of_all,
                name=model or "model",
                batch_size=settings.size,
                rate=settings.base.rate,
                builtin=settings.model if settings.table else None,
            )
            sys.stdout.write(section)
            return
        pairs = [*known.pairs(events_of_all.edge_names), *(mapped or [])] if known is not None else mapped or []
        addresses = assign(events_of_all.edge_names, urls or [], pairs)
        for name in [name for name in events_of_all.edge_names if known is not None and name not in addresses]:
            console.print(f"{name}: not an edge of the fleet, left out", highlight=False, markup=False)
        streams = _select_streams(events_of_all, list(addresses), rows)
        for name, url in addresses.items():
            console.print(f"{name} -> {url}, {len(streams[name]):,} events", highlight=False, markup=False)
        check_writable(out, json)
        tokens: Mapping[str, str | None] = dict.fromkeys(addresses, read_token(token_file))
        if known is not None and token_file is None:
            tokens = known.tokens()
        from alphaedge.inference.client import EdgeClient

        clients = {
            name: EdgeClient(url, model=model, token=tokens.get(name), authority=authority)
            for name, url in addresses.items()
        }
        few = len(clients) * connections < MAX_SELECT_SOCKETS
        with asyncio.Runner(loop_factory=_select_loop if few else None) as runner:
            result = runner.run(_replay(events_of_all, streams, clients, options, console))
        _print_result(result, console, json, out)
    if result.stopped:
        raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(0 if result.delivered else 1)


def _select_loop() -> "asyncio.AbstractEventLoop":
    """Make an event loop on select(), which wakes on time: epoll rounds up to milliseconds, and latency would too."""
    import asyncio
    import selectors

    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _select_streams(data: "Dataset", names: list[str], rows: int | None) -> dict[str, "Stream"]:
    """Take the events of the named edges, ``rows`` of them at most."""
    by_name = dict(zip(data.edge_names, data.streams, strict=True))
    part = replace(data, streams=tuple(by_name[n] for n in names), names=None, clusters=None).window(rows)
    return dict(zip(names, part.streams, strict=True))


async def _replay(
    data: "Dataset",
    streams: Mapping[str, "Stream"],
    clients: Mapping[str, "EdgeClient"],
    options: "ReplayOptions",
    console: "Console",
) -> "ReplayResult":
    """Check that the edges fit the data, then send it; Ctrl-C stops early and keeps the result up to then."""
    import asyncio

    from alphaedge.replay.compatibility import check_compatible
    from alphaedge.replay.run import replay as run
    from alphaedge.replay.terminal import ProgressBars

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        for client in clients.values():
            await stack.enter_async_context(client)
            check_compatible(client.url, data, await client.metadata())
            await client.check_token()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows
                loop.add_signal_handler(number, stop.set)
        with ProgressBars(console, data.metric) as bars:
            return await run(
                streams, clients, options, task=data.task, values=data.values, on_progress=bars.update, stop=stop
            )


def _print_result(result: "ReplayResult", console: "Console", json: Path | None, out: Path | None) -> None:
    from rich.markup import escape

    from alphaedge.cli.output import prints_json, write_json
    from alphaedge.replay.figures import save_result
    from alphaedge.replay.terminal import result_table

    if json is not None:
        write_json(result, json)
    if not prints_json(json):
        console.print(result_table(result))
    for note in result.notes:
        console.print(f"[yellow]note[/] {escape(note)}", highlight=False, soft_wrap=True)
    if out is not None:
        save_result(result, out)
        console.print(f"Results in {out}", highlight=False, markup=False, soft_wrap=True)
