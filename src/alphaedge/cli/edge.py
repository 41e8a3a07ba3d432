"""``alphaedge edge``: configure, check and run a live edge."""

import datetime as dt
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from alphaedge.cli.base import Command, exit_on_error, make_app
from alphaedge.errors import InvalidValue
from alphaedge.names import check_name

EXAMPLES = """[bold]Examples[/]

alphaedge edge init edge.toml --edge berlin --region DE

alphaedge edge check --config edge.toml

alphaedge edge serve --config edge.toml

alphaedge edge serve --config edge.toml --insecure --log text
"""

app = make_app("edge", "Configure, check and run a live edge.")

ConfigFile = Annotated[Path, typer.Option(help="Configuration file of the edge.", metavar="FILE")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow peers without certificates; on loopback only, for trying things out.")
]


class LogStyle(StrEnum):
    """How log lines are written."""

    json = "json"
    text = "text"


@app.command(cls=Command, epilog=EXAMPLES)
def init(
    file: Annotated[Path, typer.Argument(help="Configuration file to write.", metavar="FILE")],
    edge: Annotated[str, typer.Option(help="Name of the edge.", metavar="NAME")],
    region: Annotated[str, typer.Option(help="Region of the edge, as policies name it.")],
) -> None:
    """Write a configuration file with the keys that most edges need, each explained. Never replaces a file."""
    from importlib import resources

    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    with exit_on_error():
        check_name("edge", edge)
        check_name("region", region)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x", encoding="utf-8") as target:
                target.write(text.replace("{edge}", edge).replace("{region}", region))
        except FileExistsError:
            raise InvalidValue("file", str(file), "a new file: move this one away, or name another") from None
    typer.echo(f"wrote {file}; edit it, then run: alphaedge edge check --config {file}")


@app.command(cls=Command, epilog=EXAMPLES)
def check(config: ConfigFile, insecure: Insecure = False) -> None:
    """Check whether an edge can start: its configuration, model, secret, policy and certificates."""
    with exit_on_error():
        from alphaedge.edge.check import check_edge
        from alphaedge.edge.config import load

        for line in check_edge(load(config), config.parent, dt.datetime.now(dt.UTC), insecure=insecure):
            typer.echo(line)
    typer.echo("ready to start")


@app.command(cls=Command, epilog=EXAMPLES)
def serve(
    config: ConfigFile,
    insecure: Insecure = False,
    log: Annotated[
        LogStyle | None,
        typer.Option(help="Style of the log on standard error. Default: text on a terminal, json elsewhere."),
    ] = None,
) -> None:
    """Run the edge: answer predictions, take feedback and learn from it. Stop with Ctrl-C or SIGTERM."""
    with exit_on_error():
        from alphaedge.edge.check import check_edge
        from alphaedge.edge.config import load
        from alphaedge.edge.server_process import run

        check_edge(load(config), config.parent, dt.datetime.now(dt.UTC), insecure=insecure)
        text = log is LogStyle.text if log is not None else sys.stderr.isatty()
        run(config, style="text" if text else "json", insecure=insecure)
