"""``alphaedge certs``: a private authority for a fleet, and a certificate for each of its edges."""

import datetime as dt
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from alphaedge.errors import AlphaEdgeError

EXAMPLES = """[bold]Examples[/]

alphaedge certs init certs --fleet shops

alphaedge certs issue certs --edge berlin --region DE --host berlin.example.com --host 10.0.0.7

alphaedge certs renew certs --edge berlin

alphaedge certs show certs

alphaedge certs nats certs > nats.conf
"""
SOON = dt.timedelta(days=14)  # a certificate that ends within this time is pointed out

app = typer.Typer(
    help="A private certificate authority for a fleet: who shows no certificate of it does not get in.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Where = Annotated[Path, typer.Argument(help="The folder with the authority and all certificates.", metavar="DIR")]
EdgeName = Annotated[str, typer.Option(help="The edge's id.", metavar="ID")]
Days = Annotated[int, typer.Option(help="How long the certificate holds.")]


@app.command(epilog=EXAMPLES)
def init(
    folder: Where,
    fleet: Annotated[str, typer.Option(help="The fleet's name.")] = "fleet",
    days: Days = 3650,
) -> None:
    """Make the authority of a new fleet. Its key, ca.key, stays with you; every edge gets ca.pem."""
    with _authority(folder) as (authority, now):
        typer.echo(
            f"{authority.init(fleet, now=now, days=days)} is the fleet's authority; keep {folder / 'ca.key'} safe"
        )


@app.command(epilog=EXAMPLES)
def issue(
    folder: Where,
    edge: EdgeName,
    region: Annotated[str, typer.Option(help="Where it is: what policies speak of.")],
    host: Annotated[list[str], typer.Option(help="A name or address that others reach it by. Several are allowed.")],
    days: Days = 90,
) -> None:
    """A certificate and key for a new edge."""
    with _authority(folder) as (authority, now):
        path = authority.issue(edge, region, host, now=now, days=days)
        typer.echo(f"{path} and {path.with_suffix('.key')} are for {edge}, with {folder / 'ca.pem'}")


@app.command(epilog=EXAMPLES)
def renew(folder: Where, edge: EdgeName, days: Days = 90) -> None:
    """A new certificate and key for an edge, with the names that it had."""
    with _authority(folder) as (authority, now):
        path = authority.renew(edge, now=now, days=days)
        typer.echo(f"{path} and {path.with_suffix('.key')} are new; give them to {edge}")


@app.command(epilog=EXAMPLES)
def show(
    folder: Where,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Every edge's certificate and when it ends. Exits with 1 if one must not be used."""
    with _authority(folder) as (authority, now):
        found = authority.show(now)
        rows = [_row(edge, what, now) for edge, what in found.items()]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
    else:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("edge", "region", "hosts", "ends", "state"):
            table.add_column(column)
        for row in rows:
            table.add_row(
                *(row[c] if c != "hosts" else " ".join(row[c]) for c in ("edge", "region", "hosts", "ends", "state"))
            )
        Console().print(table)
    if any(isinstance(what, AlphaEdgeError) for what in found.values()):
        raise typer.Exit(1)


@app.command(epilog=EXAMPLES)
def nats(
    folder: Where,
    server: Annotated[str, typer.Option(help="The edge name in the server's own certificate.")] = "nats",
    store: Annotated[Path, typer.Option(help="Where the server keeps its streams.")] = Path("jetstream"),
    bucket: Annotated[str, typer.Option(help="As in peers.nats of the edges.")] = "alphaedge",
) -> None:
    """Print the configuration of a NATS server: each edge may write its own record and read all."""
    with _authority(folder) as (authority, now):
        from alphaedge.edge.directory.nats_server_config import server_config

        found = authority.show(now)
        known = [one for edge, one in found.items() if edge != server and not isinstance(one, AlphaEdgeError)]
        sys.stdout.write(server_config(known, certs=folder, store=store, name=server, bucket=bucket))


def _row(edge: str, what: Any, now: dt.datetime) -> dict[str, Any]:
    if isinstance(what, AlphaEdgeError):
        return {"edge": edge, "region": "", "hosts": [], "ends": "", "state": str(what)}
    state = "good" if what.ends - now > SOON else "ends soon: renew it"
    return {
        "edge": edge,
        "region": what.region,
        "hosts": list(what.hosts),
        "ends": f"{what.ends:%Y-%m-%d}",
        "state": state,
    }


@contextmanager
def needs_serve() -> Iterator[None]:
    """What is refused, or not installed, becomes one line and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        typer.echo(f"error: {error.name} is not installed; pip install 'alphaedge[serve]'", err=True)
        raise typer.Exit(2) from None
    except AlphaEdgeError as error:
        typer.echo(f"error {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"error {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def _authority(folder: Path) -> Iterator[tuple[Any, dt.datetime]]:
    with needs_serve():
        from alphaedge.edge.trust.authority import Folder

        yield Folder(folder), dt.datetime.now(dt.UTC)
