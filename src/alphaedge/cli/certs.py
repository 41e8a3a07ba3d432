"""``alphaedge certs``: a private certificate authority for a fleet, and a certificate for each of its edges."""

import datetime as dt
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from alphaedge.cli.base import Command, exit_on_error, make_app
from alphaedge.errors import AlphaEdgeError

if TYPE_CHECKING:
    from alphaedge.edge.trust.authority import CertificateFolder
    from alphaedge.edge.trust.certificates import Identity

EXAMPLES = """[bold]Examples[/]

alphaedge certs init certs --fleet shops

alphaedge certs issue certs --edge berlin --region DE --host berlin.example.com --host 10.0.0.7

alphaedge certs renew certs --edge berlin

alphaedge certs show certs

alphaedge certs nats certs > nats.conf
"""
RENEW_WITHIN: Final = dt.timedelta(days=14)  # `certs show` asks to renew a certificate that expires sooner
COLUMNS: Final = ("edge", "region", "hosts", "expires", "state")

app = make_app("certs", "Run a private certificate authority for a fleet: edges accept only peers that it certified.")

CertificatesPath = Annotated[Path, typer.Argument(help="Folder of the authority and all certificates.", metavar="DIR")]
EdgeName = Annotated[str, typer.Option(help="Name of the edge.", metavar="NAME")]
Days = Annotated[int, typer.Option(help="Days that the certificate is valid.")]


@app.command(cls=Command, epilog=EXAMPLES)
def init(
    folder: CertificatesPath,
    fleet: Annotated[str, typer.Option(help="Name of the fleet.")] = "fleet",
    days: Days = 3650,
) -> None:
    """Create the authority of a new fleet. Keep its key, ca.key, to yourself; every edge needs ca.pem."""
    with _open(folder) as (certificates, now):
        path = certificates.init(fleet, now=now, days=days)
        typer.echo(f"created {path}, the fleet's authority; keep {folder / 'ca.key'} secret")


@app.command(cls=Command, epilog=EXAMPLES)
def issue(
    folder: CertificatesPath,
    edge: EdgeName,
    region: Annotated[str, typer.Option(help="Region of the edge, as policies name it.")],
    host: Annotated[
        list[str],
        typer.Option(help="Host name or address at which peers reach it. Repeat for several.", metavar="HOST"),
    ],
    days: Days = 90,
) -> None:
    """Issue a certificate and key for a new edge."""
    with _open(folder) as (certificates, now):
        path = certificates.issue(edge, region, host, now=now, days=days)
        typer.echo(f"copy {path}, {path.with_suffix('.key')} and {folder / 'ca.pem'} to {edge}")


@app.command(cls=Command, epilog=EXAMPLES)
def renew(folder: CertificatesPath, edge: EdgeName, days: Days = 90) -> None:
    """Issue a new certificate and key for an edge, with the region and hosts of the old one."""
    with _open(folder) as (certificates, now):
        path = certificates.renew(edge, now=now, days=days)
        typer.echo(f"renewed; copy {path} and {path.with_suffix('.key')} to {edge}")


@app.command(cls=Command, epilog=EXAMPLES)
def show(
    folder: CertificatesPath,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the certificates and when they expire. Exits with 1 if one must not be used."""
    with _open(folder) as (certificates, now):
        identities = certificates.identities(now)
        rows = [_row(edge, identity, now) for edge, identity in identities.items()]
    if json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
    else:
        _print_table(rows)
    if any(isinstance(identity, AlphaEdgeError) for identity in identities.values()):
        raise typer.Exit(1)


@app.command(cls=Command, epilog=EXAMPLES)
def nats(
    folder: CertificatesPath,
    server: Annotated[str, typer.Option(help="Edge name in the server's own certificate.")] = "nats",
    store: Annotated[Path, typer.Option(help="Folder in which the server keeps its streams.")] = Path("jetstream"),
    bucket: Annotated[str, typer.Option(help="Bucket that the edges name in peers.nats.")] = "alphaedge",
) -> None:
    """Print the configuration of a NATS server: each edge may write its own announcement and read all."""
    with _open(folder) as (certificates, now):
        from alphaedge.edge.directory.nats_server_config import server_config

        identities = certificates.identities(now)
        valid = [one for edge, one in identities.items() if edge != server and not isinstance(one, AlphaEdgeError)]
        sys.stdout.write(server_config(valid, certs=folder, store=store, name=server, bucket=bucket))


def _row(edge: str, identity: "Identity | AlphaEdgeError", now: dt.datetime) -> dict[str, Any]:
    if isinstance(identity, AlphaEdgeError):
        return {"edge": edge, "region": "", "hosts": [], "expires": "", "state": str(identity)}
    return {
        "edge": edge,
        "region": identity.region,
        "hosts": list(identity.hosts),
        "expires": f"{identity.not_after:%Y-%m-%d}",
        "state": "valid" if identity.not_after - now > RENEW_WITHIN else "expires soon: renew it",
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(" ".join(row[c]) if c == "hosts" else row[c] for c in COLUMNS))
    Console().print(table)


@contextmanager
def _open(folder: Path) -> Iterator[tuple["CertificateFolder", dt.datetime]]:
    with exit_on_error():
        from alphaedge.edge.trust.authority import CertificateFolder

        yield CertificateFolder(folder), dt.datetime.now(dt.UTC)
