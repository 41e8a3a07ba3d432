"""``alphaedge status``: a fleet at a glance, through any one of its edges."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from alphaedge.cli.certs import needs_serve
from alphaedge.errors import AlphaEdgeError
from alphaedge.report.numbers import human

if TYPE_CHECKING:
    from alphaedge.monitoring.health import EdgeHealth

EXAMPLES = """[bold]Examples[/]

alphaedge status

alphaedge status https://berlin.example.com:8080 --token-file token --authority ca.pem

alphaedge status --json | jq '.edges[] | select(.state != "ok")'

[bold]Exit code[/]  0: all is well. 1: some edge is down, alone, stale or has another schema. 2: no answer.
"""
COLOURS = {"ok": "green", "waiting": "cyan", "alone": "yellow", "stale": "yellow", "other schema": "yellow"}
Url = Annotated[str, typer.Argument(help="An edge's public address.", metavar="URL")]
TokenFile = Annotated[Path | None, typer.Option(help="A file with the token that it wants to see.", metavar="FILE")]
Authority = Annotated[
    Path | None, typer.Option(help="Who signed its certificate, if this machine does not trust it.", metavar="FILE")
]


def status(
    edge: Url = "http://localhost:8080",
    token_file: TokenFile = None,
    authority: Authority = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Print a table of the fleet, as one of its edges sees it. The exit code says how it is."""
    with needs_serve():
        from alphaedge.monitoring.client import FleetClient
        from alphaedge.monitoring.frames import latest
        from alphaedge.monitoring.health import fleet_health, is_healthy

        fleet = FleetClient(edge, read_token(token_file), authority).fleet()
        found = fleet_health(latest(fleet.frames))
        good = is_healthy(found)
    if json:
        typer.echo(msgspec.json.encode({"seen_by": fleet.edge, "well": good, "edges": found}))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(_table(fleet.edge, found))
    if not good:
        raise typer.Exit(1)


def read_token(file: Path | None) -> str | None:
    """The token in a file, if one is named."""
    try:
        return file.read_text(encoding="utf-8").strip() if file else None
    except OSError as error:
        raise AlphaEdgeError(f"token-file: {error}") from None


def _table(teller: str, found: "list[EdgeHealth]") -> Table:
    table = Table(title=f"the fleet, seen by {teller}", box=box.SIMPLE_HEAD)
    for name in ("edge", "region", "state"):
        table.add_column(name)
    for name in ("batches", "mixes", "score", "lately", "p99 ms", "pulled", "refused"):
        table.add_column(name, justify="right")
    table.add_column("learns from")
    for one in found:
        peers = sorted(one.peers.items(), key=lambda p: -p[1])
        table.add_row(
            one.edge,
            one.region,
            f"[{COLOURS.get(one.state, 'red')}]{one.state}[/]",
            f"{one.batches:,}",
            f"{one.aggregations:,}",
            _number(one.score, 4),
            _number(one.recent, 4),
            _number(one.p99, 1),
            human(one.bytes),
            f"{one.refused:,}",
            ", ".join(f"{peer} {share:.2f}" for peer, share in peers),
        )
    return table


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
