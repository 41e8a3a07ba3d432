"""``alphaedge fleet``: make a live fleet from a simulation, and run it on this machine."""

import datetime as dt
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli.base import Command, exit_on_error, make_app
from alphaedge.cli.options import option

if TYPE_CHECKING:
    from rich.console import Console

    from alphaedge.fleet.processes import LocalFleet

EXAMPLES = """[bold]Examples[/]

alphaedge simulate --table sales.csv --out results/mine

alphaedge fleet init --from results/mine --out fleet

alphaedge fleet up fleet

alphaedge fleet up fleet --detach

alphaedge fleet down fleet

alphaedge fleet init --from results/mine --out fleet --host '{edge}.example.com'

alphaedge fleet init --from results/mine --history sales-of-last-year.parquet --out fleet
"""
READY_SECONDS: Final = 300.0
REFRESH_SECONDS: Final = 1.0

app = make_app("fleet", "Make a live fleet from a simulation, and run it on this machine.")

FleetFolder = Annotated[Path, typer.Argument(help="Folder that `alphaedge fleet init` made.", metavar="DIR")]


@app.command(cls=Command, epilog=EXAMPLES)
def init(
    results: Annotated[
        Path, typer.Option("--from", help="Results folder of `alphaedge simulate --out`.", metavar="DIR")
    ],
    out: Annotated[Path, typer.Option(help="Folder to make.", metavar="DIR")],
    host: Annotated[
        str | None,
        option(
            "How others reach the machine of an edge, such as {edge}.example.com. Default: all edges on this machine.",
            metavar="PATTERN",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port for callers; on this machine, that of the first edge.")] = 8080,
    peer_port: Annotated[int, typer.Option(help="Port for peers; on this machine, that of the first edge.")] = 8443,
    model: Annotated[
        str | None,
        option(
            "Your own model, if the simulation was given one. Default: the one of the data set.",
            metavar="MODULE:FACTORY",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Leave out what the simulation has learned.")] = False,
    history: Annotated[
        str | None,
        option(
            "Let the edges start from the events of this table, which they learn when they start, instead of what the "
            "simulation has learned. CSV or Parquet with the columns of the simulated table.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Make a folder for each region: configuration, certificate, secret, policy, and the state that it starts with.

    The edges go on where the simulation ended: models, id rows, tallies, weights and chosen peers. The folder
    `authority` has the key that signs certificates; keep it to yourself.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with exit_on_error():
        from alphaedge.fleet.from_results import init_fleet
        from alphaedge.fleet.tokens import TOKEN_FILE

        with Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console, transient=True
        ) as bar:
            task = bar.add_task("writing edges", total=None)
            fleet = init_fleet(
                results,
                out,
                now=dt.datetime.now(dt.UTC),
                host=host,
                port=port,
                peer_port=peer_port,
                factory=model,
                with_state=not fresh,
                history=history,
                done=lambda name: bar.update(task, advance=1, description=f"wrote {name}"),
            )
    for edge in fleet.edges:
        place = f" ({edge.place})" if edge.place != edge.name else ""
        typer.echo(f"{out / edge.name}{place}: {edge.url}")
    if fleet.local:
        typer.echo(f"start all edges on this machine: alphaedge fleet up {out}")
    else:
        typer.echo("copy each folder to its machine, and run there: alphaedge edge serve --config edge.toml")
        typer.echo(f"callers of an edge send the token that is in its folder: {TOKEN_FILE}")
    typer.echo(f"keep {out / 'authority'} to yourself: its key signs certificates")


@app.command(cls=Command, epilog=EXAMPLES)
def up(
    folder: FleetFolder,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when all edges are ready; `fleet down` stops them.")
    ] = False,
) -> None:
    """Start all edges of a fleet on this machine, and watch them. Ctrl-C stops those that this command started."""
    from rich.console import Console

    console = Console()
    with exit_on_error():
        from alphaedge.fleet.processes import LocalFleet

        local = LocalFleet(folder)
        running = len(local.running())
        started = local.start(detach=detach)
        already = f", {running} run already" if running else ""
        console.print(f"{len(started)} of {len(local.fleet.edges)} edges started{already}", highlight=False)
        try:
            with console.status("waiting until all edges can predict"):
                local.wait_until_ready(READY_SECONDS)
        except BaseException:
            local.stop(started)
            raise
        for edge in local.fleet.edges:
            console.print(f"{edge.place}: {edge.url}", highlight=False, markup=False)
        console.print(f"dashboard: {local.fleet.edges[0].url}/dashboard", highlight=False)
        if detach:
            console.print(f"stop them with: alphaedge fleet down {folder}", highlight=False)
            return
        try:
            _watch(local, console)
        finally:
            local.stop(started)


@app.command(cls=Command, epilog=EXAMPLES)
def down(folder: FleetFolder) -> None:
    """Stop all edges of a fleet on this machine. What they have learned stays; `fleet up` goes on from there."""
    with exit_on_error():
        from alphaedge.fleet.processes import LocalFleet

        stopped = LocalFleet(folder).stop()
        typer.echo(f"stopped {len(stopped)} edges" + (f": {', '.join(stopped)}" if stopped else ""))


def _watch(local: "LocalFleet", console: "Console") -> None:
    """Show the state of the fleet until Ctrl-C, or until no edge runs any more."""
    from rich.live import Live

    from alphaedge.cli.status import fleet_table
    from alphaedge.errors import Unreachable
    from alphaedge.fleet.tokens import read_token
    from alphaedge.monitoring.client import FleetClient
    from alphaedge.monitoring.frames import latest_state
    from alphaedge.monitoring.health import fleet_health

    tokens = {edge.name: read_token(local.folder, edge) for edge in local.fleet.edges}
    try:
        with Live(console=console, auto_refresh=False, screen=False) as live:
            while running := local.running():
                for edge in running:
                    try:
                        fleet = FleetClient(edge.url, tokens[edge.name]).fetch_fleet()
                    except Unreachable:
                        continue
                    if sys.stdout.isatty():
                        table = fleet_table(fleet.edge, fleet_health(latest_state(fleet.frames)), live.console.width)
                        live.update(table, refresh=True)
                    break
                time.sleep(REFRESH_SECONDS)
    except KeyboardInterrupt:
        console.print("stopping")
