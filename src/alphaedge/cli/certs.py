"""``alphaedge certs``: a private certificate authority for a fleet, and a certificate for each of its edges."""

import datetime as dt
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from alphaedge.cli.base import Command, exit_on_error, make_app
from alphaedge.errors import AlphaEdgeError, InvalidValue

if TYPE_CHECKING:
    from alphaedge.edge.trust.authority import CertificateFolder
    from alphaedge.edge.trust.certificates import Identity

EXAMPLES = """[bold]Examples[/]

alphaedge certs init certs --fleet shops

alphaedge certs issue certs --edge berlin --region DE --host berlin.example.com --host 10.0.0.7

alphaedge certs renew certs --all --within 30

alphaedge certs revoke certs --edge berlin --nats nats.conf

alphaedge certs show certs

alphaedge certs nats certs > nats.conf

alphaedge certs secret fleet.secret --rotate
"""
RENEW_WITHIN: Final = dt.timedelta(days=14)  # `certs show` asks to renew a certificate that expires sooner
COLUMNS: Final = ("edge", "region", "hosts", "expires", "state")

app = make_app("certs", "Run a private certificate authority for a fleet: edges accept only peers that it certified.")

CertificatesPath = Annotated[Path, typer.Argument(help="Folder of the authority and all certificates.", metavar="DIR")]
EdgeName = Annotated[str, typer.Option(help="Name of the edge.", metavar="NAME")]
EdgeNames = Annotated[list[str] | None, typer.Option(help="Name of an edge. Repeat for several.", metavar="NAME")]
Bucket = Annotated[str, typer.Option(help="Bucket that the edges name in peers.nats.")]
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
def renew(
    folder: CertificatesPath,
    edge: EdgeNames = None,
    every: Annotated[bool, typer.Option("--all", help="Renew all edges that are not revoked.")] = False,
    within: Annotated[
        float | None,
        typer.Option(help="With --all: only certificates that expire within so many days.", metavar="DAYS"),
    ] = None,
    days: Days = 90,
) -> None:
    """Issue new certificates and keys, with the region and hosts of the old ones. The old ones stay valid for now."""
    with _open(folder) as (certificates, now):
        if bool(edge) == every or (within is not None and not every):
            raise InvalidValue("edge", edge, "one --edge NAME or more, or --all; --within goes with --all")
        paths = certificates.renew(_due(certificates, now, within) if every else edge or (), now=now, days=days)
        for name, path in paths.items():
            typer.echo(f"renewed; copy {path} and {path.with_suffix('.key')} to {name}")
        if not paths:
            typer.echo("nothing to renew")
        elif certificates.pinned_keys(now):
            typer.echo(
                f"if there are NATS servers, run alphaedge certs nats {folder} --update FILE and reload them first"
            )


def _due(certificates: "CertificateFolder", now: dt.datetime, within: float | None) -> list[str]:
    """Choose the edges to renew; say which are left out."""
    revoked, due = certificates.revocations().serials(), list[str]()
    for edge, serial, expires in certificates.expiries():
        if serial in revoked:
            typer.echo(f"left out: {edge} is revoked; name it with --edge to certify it anew")
        elif within is None or expires - now <= dt.timedelta(days=within):
            due.append(edge)
    return due


@app.command(cls=Command, epilog=EXAMPLES)
def revoke(
    folder: CertificatesPath,
    edge: EdgeNames = None,
    serial: Annotated[
        list[str] | None,
        typer.Option(help="Serial number of one certificate, in hexadecimal. Repeat for several.", metavar="HEX"),
    ] = None,
    nats: Annotated[
        Path | None, typer.Option(help="Configuration of the NATS servers, to write anew.", metavar="FILE")
    ] = None,
    bucket: Bucket = "alphaedge",
) -> None:
    """Revoke certificates: of an edge all that were issued so far, or single ones by their serial numbers."""
    with _open(folder) as (certificates, now):
        if not edge and not serial:
            raise InvalidValue("edge", None, "at least one --edge NAME or --serial HEX")
        revoked = certificates.revoke(edge or (), [_serial(text) for text in serial or ()], now=now)
        for one in revoked:
            typer.echo(f"revoked {one.edge or 'a certificate'}, serial number {one.serial}")
        number, path = certificates.revocations().number, certificates.revoked_file
        if not revoked:
            typer.echo(f"nothing to do: {path}, list {number}, has them already")
        else:
            typer.echo(f"wrote {path}, list {number}; copy it beside the ca.pem of any edge, and the others hear of it")
        if nats is not None:
            _update(certificates, nats, now, bucket)


def _serial(text: str) -> int:
    try:
        return int(text.replace(":", ""), 16)
    except ValueError:
        raise InvalidValue("serial", text, "a number in hexadecimal, as in issued.list") from None


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
    bucket: Bucket = "alphaedge",
    update: Annotated[
        Path | None, typer.Option(help="Write the users in this configuration anew instead.", metavar="FILE")
    ] = None,
) -> None:
    """Print the configuration of a NATS server: each edge may write its own announcement and read all."""
    with _open(folder) as (certificates, now):
        from alphaedge.edge.directory.nats_server_config import server_config

        if update is not None:
            _update(certificates, update, now, bucket)
            return
        pinned = certificates.pinned_keys(now)
        users = _users(certificates, now)
        sys.stdout.write(server_config(users, certs=folder, store=store, name=server, bucket=bucket, pinned=pinned))


@app.command(cls=Command, epilog=EXAMPLES)
def secret(
    file: Annotated[Path, typer.Argument(help="File with the fleet's secret.", metavar="FILE")],
    rotate: Annotated[bool, typer.Option("--rotate", help="Add a new wire secret to the one in use.")] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Remove the old one, once every edge has the new one.")
    ] = False,
) -> None:
    """Change the secret under which keys travel, in wire.secrets beside FILE. FILE itself never changes."""
    with exit_on_error():
        from alphaedge.edge.trust.wire_secrets import WIRE_SECRETS_FILE, begin_rotation, finish_rotation

        if rotate == finish:
            raise InvalidValue("certs secret", "both" if rotate else "neither", "one of --rotate and --finish")
        try:
            first = file.read_bytes().strip()
        except OSError as error:
            raise InvalidValue("file", str(file), f"a readable file ({error.strerror})") from None
        path = file.with_name(WIRE_SECRETS_FILE)
        newest = (begin_rotation if rotate else finish_rotation)(path, first)
        typer.echo(f"wrote {path}; the newest secret in it is {newest.name.hex()}")
        typer.echo("copy it beside the edge.toml of every edge, one after the other; edges read it while they run")
        if rotate:
            typer.echo(f"when every edge has it, run alphaedge certs secret {file} --finish, and copy it again")


def _users(certificates: "CertificateFolder", now: dt.datetime) -> "list[Identity]":
    return [one for one in certificates.identities(now).values() if not isinstance(one, AlphaEdgeError)]


def _update(certificates: "CertificateFolder", path: Path, now: dt.datetime, bucket: str) -> None:
    """Write the users of a NATS configuration anew."""
    from alphaedge.edge.directory.nats_server_config import updated_config
    from alphaedge.files import replace_file

    users, pinned = _users(certificates, now), certificates.pinned_keys(now)
    text = updated_config(path.read_text(encoding="utf-8"), users, bucket=bucket, pinned=pinned)
    replace_file(path, text.encode())
    typer.echo(f"wrote {path}; reload the NATS servers: nats-server --signal reload")


def _row(edge: str, identity: "Identity | AlphaEdgeError", now: dt.datetime) -> dict[str, Any]:
    if isinstance(identity, AlphaEdgeError):
        return {"edge": edge, "region": "", "hosts": [], "serial": "", "expires": "", "state": str(identity)}
    return {
        "edge": edge,
        "region": identity.region,
        "hosts": list(identity.hosts),
        "serial": f"{identity.serial:x}",
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
