"""The command line: one module per command.

Help, completion and the commands that only configure or look must start at once. A command module imports what takes
long (torch, polars, rich, the packages of the extra "serve") inside the function that needs it.
"""

from typing import Annotated

import typer

from alphaedge import __version__
from alphaedge.cli import (
    audit,
    ban,
    certs,
    dashboard,
    demo,
    edge,
    export,
    fleet,
    replay,
    reproduce,
    simulate,
    status,
    sweep,
    tune,
)
from alphaedge.cli.base import Command, make_app

ABOUT = "Online learning on edge servers that learn from each other, with no central server."

app = make_app("alphaedge", ABOUT)
app.command(cls=Command, epilog=demo.EXAMPLES)(demo.demo)
app.command(cls=Command, epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(cls=Command, epilog=sweep.EXAMPLES)(sweep.sweep)
app.command(cls=Command, epilog=tune.EXAMPLES)(tune.tune)
app.command(cls=Command, epilog=audit.EXAMPLES)(audit.audit)
app.command(cls=Command, epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command(cls=Command, epilog=replay.EXAMPLES)(replay.replay)
app.command(cls=Command, epilog=export.EXAMPLES)(export.export)
app.command(cls=Command, epilog=status.EXAMPLES)(status.status)
app.command(cls=Command, epilog=dashboard.EXAMPLES)(dashboard.dashboard)
app.command(cls=Command, epilog=ban.EXAMPLES)(ban.ban)
app.add_typer(fleet.app)
app.add_typer(edge.app)
app.add_typer(certs.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"alphaedge {__version__}")
        raise typer.Exit


@app.callback(help=ABOUT)
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""
