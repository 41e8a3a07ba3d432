"""``alphaedge edge``: a live edge."""

import datetime as dt
import sys
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from alphaedge.cli.certs import needs_serve
from alphaedge.errors import InvalidValue

EXAMPLES = """[bold]Examples[/]

alphaedge edge init edge.toml --edge berlin --region DE

alphaedge edge check --config edge.toml

alphaedge edge serve --config edge.toml

alphaedge edge serve --config edge.toml --insecure --log text
"""


Insecure = Annotated[
    bool, typer.Option("--insecure", help="Peers without certificates: on loopback alone, to try things out.")
]


class LogStyle(StrEnum):
    """How the log is written."""

    json = "json"
    text = "text"


app = typer.Typer(help="A live edge.", no_args_is_help=True, rich_markup_mode="rich")


@app.command(epilog=EXAMPLES)
def init(
    file: Annotated[Path, typer.Argument(help="The configuration file to write.")],
    edge: Annotated[str, typer.Option(help="The edge's id.", metavar="ID")],
    region: Annotated[str, typer.Option(help="Where it is.")],
) -> None:
    """Write a configuration file with the keys that most edges need, each explained. Refuses to replace one."""
    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    with needs_serve():
        from alphaedge.names import check_name

        check_name("edge", edge)
        check_name("region", region)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x", encoding="utf-8") as target:
                target.write(text.replace("{edge}", edge).replace("{region}", region))
        except FileExistsError:
            raise InvalidValue("file", str(file), "one that is not there yet: move it away, or name another") from None
    typer.echo(f"{file} is written: look through it, then alphaedge edge check --config {file}")


@app.command(epilog=EXAMPLES)
def check(
    config: Annotated[Path, typer.Option(help="The edge's configuration file.", metavar="FILE")],
    insecure: Insecure = False,
) -> None:
    """Say whether an edge can start: its configuration, model, secret, policy and certificates."""
    with needs_serve():
        from alphaedge.edge.check import checked
        from alphaedge.edge.config import load

        for line in checked(load(config), config.parent, dt.datetime.now(dt.UTC), insecure=insecure):
            typer.echo(line)
    typer.echo("ready to start")


@app.command(epilog=EXAMPLES)
def serve(
    config: Annotated[Path, typer.Option(help="The edge's configuration file.", metavar="FILE")],
    insecure: Insecure = False,
    log: Annotated[
        LogStyle | None,
        typer.Option(help="Of the log, on standard error. Without: text on a terminal, else json."),
    ] = None,
) -> None:
    """Answer predictions, take feedback and learn from it, until told to stop (Ctrl-C or SIGTERM)."""
    with needs_serve():
        from alphaedge.edge.check import checked
        from alphaedge.edge.config import load
        from alphaedge.edge.server_process import run

        checked(load(config), config.parent, dt.datetime.now(dt.UTC), insecure=insecure)
        style = log.value if log is not None else "text" if sys.stderr.isatty() else "json"
        run(config, style="json" if style == "json" else "text", insecure=insecure)
