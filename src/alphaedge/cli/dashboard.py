"""``alphaedge dashboard``: a fleet in the browser, through any one of its edges."""

from typing import Annotated

import typer

from alphaedge.cli.certs import needs_serve
from alphaedge.cli.status import Authority, TokenFile, read_token

EXAMPLES = """[bold]Examples[/]

alphaedge dashboard --edge http://localhost:8080 --open

alphaedge dashboard --edge https://berlin.example.com:8080 --token-file token --authority ca.pem --port 9000
"""


def dashboard(
    edge: Annotated[str, typer.Option(help="The public address of any edge.", metavar="URL")] = "http://localhost:8080",
    token_file: TokenFile = None,
    authority: Authority = None,
    port: Annotated[int, typer.Option(help="Where the page is, on this machine. 0: any free port.")] = 8090,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show a fleet in the browser: who learns from whom, how well and how fresh. Ctrl-C ends it."""
    with needs_serve():
        from alphaedge.dashboard.relay import relay
        from alphaedge.monitoring.client import FleetClient

        def ready(url: str) -> None:
            typer.echo(f"the fleet seen by {edge}: {url}")
            if open_:
                typer.launch(url)

        relay(FleetClient(edge, read_token(token_file), authority), port, ready)
