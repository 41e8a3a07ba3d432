"""The command line: one file per command."""

from typing import Annotated

import typer

from alphaedge import __version__
from alphaedge.cli import certs, dashboard, demo, edge, replay, reproduce, simulate, status

app = typer.Typer(
    name="alphaedge",
    help="Online learning on edge servers that learn from each other, with no central server.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.command(epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command(epilog=replay.EXAMPLES)(replay.replay)
app.command(epilog=status.EXAMPLES)(status.status)
app.command(epilog=dashboard.EXAMPLES)(dashboard.dashboard)
app.add_typer(edge.app, name="edge")
app.add_typer(certs.app, name="certs")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"alphaedge {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and do no more.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Online learning on edge servers that learn from each other, with no central server."""
