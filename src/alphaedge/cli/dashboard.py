"""``alphaedge dashboard``: the fleet in the browser, as one of its edges sees it."""

from typing import Annotated

import typer

from alphaedge.cli.base import exit_on_error
from alphaedge.cli.options import Authority, TokenFile
from alphaedge.cli.status import read_token

EXAMPLES = """[bold]Examples[/]

alphaedge dashboard --edge http://localhost:8080 --open

alphaedge dashboard --edge https://berlin.example.com:8080 --token-file token --authority ca.pem --port 9000
"""


def dashboard(
    edge: Annotated[str, typer.Option(help="Public address of any edge.", metavar="URL")] = "http://localhost:8080",
    token_file: TokenFile = None,
    authority: Authority = None,
    port: Annotated[int, typer.Option(help="Local port of the page; 0 takes a free one.")] = 8090,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show the fleet in the browser: which edges learn from which, how well and how fresh. Stop with Ctrl-C."""
    with exit_on_error():
        from alphaedge.dashboard.relay import serve_relay
        from alphaedge.monitoring.client import FleetClient

        def ready(url: str) -> None:
            typer.echo(f"fleet seen by {edge}: {url}")
            if open_:
                typer.launch(url)

        serve_relay(FleetClient(edge, read_token(token_file), authority), port, ready)
