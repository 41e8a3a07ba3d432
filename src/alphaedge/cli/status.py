"""``alphaedge status``: the health of a fleet, as one of its edges sees it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from alphaedge.cli.base import exit_on_error, plain_width
from alphaedge.cli.options import Authority, TokenFile
from alphaedge.errors import AlphaEdgeError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from alphaedge.monitoring.health import EdgeHealth

EXAMPLES = """[bold]Examples[/]

alphaedge status

alphaedge status https://berlin.example.com:8080 --token-file token --authority ca.pem

alphaedge status --json | jq '.edges[] | select(.state != "ok")'

[bold]Exit code[/]  0: the fleet is healthy. 1: an edge is down, alone, stale or has another schema. 2: no answer.
"""
QUIET: Final = {"ok": "green", "starting": "cyan", "waiting": "cyan"}
COLOURS: Final = QUIET | dict.fromkeys(("alone", "stale", "other schema", "budget spent"), "yellow")
SMALLEST_SHARE: Final = 0.005  # that is shown
LEFT_OUT_FIRST: Final = ("refused", "mixes", "recent", "region", "p99 ms", "batches", "pulled")
PEERS_WIDTH: Final = 28  # for whom an edge learns from
GAP: Final = 3  # between columns


def status(
    edge: Annotated[str, typer.Argument(help="Public address of any edge.", metavar="URL")] = "http://localhost:8080",
    token_file: TokenFile = None,
    authority: Authority = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the health of every edge of the fleet. The exit code tells whether all are healthy."""
    with exit_on_error():
        from alphaedge.monitoring.client import FleetClient
        from alphaedge.monitoring.frames import latest_state
        from alphaedge.monitoring.health import fleet_health, is_healthy

        fleet = FleetClient(edge, read_token(token_file), authority).fetch_fleet()
    edges = fleet_health(latest_state(fleet.frames))
    healthy = is_healthy(edges)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode({"seen_by": fleet.edge, "healthy": healthy, "edges": edges}))
    else:
        from rich.console import Console

        console = Console(width=plain_width())
        console.print(fleet_table(fleet.edge, edges, console.width))
        if any(one.left_out for one in edges):
            console.print(_peer_table(edges))
    if not healthy:
        raise typer.Exit(1)


def read_token(file: Path | None) -> str | None:
    """Read the token from a file, if one is given."""
    try:
        return file.read_text(encoding="utf-8").strip() if file else None
    except (OSError, UnicodeDecodeError) as error:
        raise AlphaEdgeError(f"token-file: {error}") from None


def fleet_table(seen_by: str, edges: "Sequence[EdgeHealth]", width: int | None = None) -> "Table":
    """A row for each edge of a fleet. seen_by: the edge that was asked.

    width: columns of the terminal. What is least needed is left out until names and numbers fit; peers are folded.
    """
    from rich import box
    from rich.filesize import decimal
    from rich.table import Table
    from rich.text import Text

    def peers(one: "EdgeHealth") -> str:
        shares = sorted(one.peers.items(), key=lambda p: -p[1])
        return ", ".join(f"{peer} {share:.2f}" for peer, share in shares if share >= SMALLEST_SHARE) or "nobody"

    columns: dict[str, list[Text]] = {
        "edge": [_named(one) for one in edges],
        "region": [Text(one.region) for one in edges],
        "state": [Text(one.state, COLOURS.get(one.state, "red")) for one in edges],
        "batches": [Text(f"{one.batches:,}") for one in edges],
        "mixes": [Text(f"{one.aggregations:,}") for one in edges],
        "score": [Text(_number(one.score, 4)) for one in edges],
        "gain": [Text(_gain(one.gain)) for one in edges],
        "recent": [Text(_number(one.recent, 4)) for one in edges],
        "p99 ms": [Text(_number(one.p99, 1)) for one in edges],
        "pulled": [Text(decimal(one.bytes)) for one in edges],
        "refused": [Text(f"{one.refused:,}") for one in edges],
    }
    needed = {name: GAP + max([len(name), *(len(cell) for cell in cells)]) for name, cells in columns.items()}
    for name in LEFT_OUT_FIRST:
        if width is not None and sum(needed[n] for n in columns) + PEERS_WIDTH > width:
            del columns[name]
    table = Table(title=f"fleet seen by {seen_by}", box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="left" if name in ("edge", "region", "state") else "right", no_wrap=True)
    table.add_column("learns from", overflow="fold")
    for one, *cells in zip(edges, *columns.values(), strict=True):
        table.add_row(*cells, Text(peers(one)))
    return table


def _peer_table(edges: "Sequence[EdgeHealth]") -> "Table":
    """The peers that take no part in somebody's mixes, and why."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("edge", "peer", "state", title="peers that take no part", box=box.SIMPLE_HEAD, title_justify="left")
    for one in edges:
        for peer, state in sorted(one.left_out.items()):
            table.add_row(one.edge, peer, Text(state))  # text: what comes from an edge is never markup
    return table


def _named(edge: "EdgeHealth") -> "Text":
    """The name of an edge, and what its data call it, if that is not the same but for capitals."""
    from rich.text import Text

    other = edge.place and edge.place.lower() != edge.edge.lower()
    return Text(f"{edge.edge} ({edge.place})" if other else edge.edge)


def _gain(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
