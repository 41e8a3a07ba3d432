"""Write the folder of a fleet: one folder for each edge, ready to be copied to its machine, and the operator's own.

    fleet.toml            the edges and their addresses
    data.toml             how to read a table of the same kind
    authority/            the key that signs certificates, and a copy of each: stays with the operator
    berlin/edge.toml      configuration
    berlin/edge.pem, edge.key, ca.pem, fleet.secret, policy.txt
    berlin/token.txt      what callers must send, if they can be on other machines
    berlin/data/          the state that the edge starts with

A folder is made under another name and renamed when it is complete.
"""

import contextlib
import datetime as dt
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import tomli_w

from alphaedge import toml
from alphaedge.edge.check import check_edge
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.errors import InvalidValue
from alphaedge.files import replace_file
from alphaedge.fleet.layout import AUTHORITY, FLEET_FILE, LOOPBACK, EdgeAddress, Fleet
from alphaedge.fleet.tokens import TOKEN_FILE, write_token
from alphaedge.names import to_place

SEEDS: Final = 2  # edges that all others contact first
AUTHORITY_DAYS, CERTIFICATE_DAYS = 3650, 90
POLICY: Final = "# Who may not learn from whom, a rule a line: deny from=EDGE-OR-REGION to=EDGE-OR-REGION\n"
DATA_FILE: Final = "data.toml"
Start = Callable[[EdgeConfig, Path, int, bytes], None]  # of an edge: configuration, folder, number, secret


def write_fleet(
    folder: Path,
    fleet: Fleet,
    model: Mapping[str, Any],
    method: Mapping[str, Any],
    *,
    seed: int,
    start: Start | None,
    data_toml: str,
    now: dt.datetime,
    done: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a fleet folder, which must not exist.

    model, method: sections of every edge's configuration. start: writes what an edge starts with; None for nothing.
    done: called with the name of each edge that is written.
    """
    with _new_folder(folder) as made:
        authority, secret = CertificateFolder(made / AUTHORITY), secrets.token_hex(16)
        authority.init(fleet.data, now=now, days=AUTHORITY_DAYS)
        seeds = [edge.peer_address for edge in fleet.edges[:SEEDS]]
        for number, edge in enumerate(fleet.edges):
            own = made / edge.name
            own.mkdir()
            hosts = list(dict.fromkeys([edge.host, LOOPBACK]))
            issued = authority.issue(edge.name, edge.region, hosts, now=now, days=CERTIFICATE_DAYS)
            for source, name in ((issued, "edge.pem"), (made / AUTHORITY / "ca.pem", "ca.pem")):
                replace_file(own / name, source.read_bytes())
            replace_file(own / "edge.key", issued.with_suffix(".key").read_bytes(), mode=0o600)
            issued.with_suffix(".key").unlink()  # an edge's key is on its own machine only
            replace_file(own / "fleet.secret", secret.encode(), mode=0o600)
            replace_file(own / "policy.txt", POLICY.encode())
            if not fleet.local:
                write_token(own)
            section = _edge_section(edge, [s for s in seeds if s != edge.peer_address], local=fleet.local)
            text = tomli_w.dumps(section | {"seed": seed, "model": dict(model), "method": dict(method)})
            replace_file(own / "edge.toml", text.encode())
            config = toml.load(own / "edge.toml", EdgeConfig)
            check_edge(config, own, now)
            if start is not None:
                start(config, own, number, secret.encode())
            done(edge.name)
        replace_file(made / DATA_FILE, data_toml.encode())
        replace_file(made / FLEET_FILE, toml.dumps(fleet).encode())


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder under another name, which becomes ``folder`` when the block ends, and nothing if it raises."""
    if folder.exists():
        raise InvalidValue("out", str(folder), "a folder that does not exist yet")
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # left behind by a process that was killed
    part.mkdir(parents=True)
    try:
        yield part
        os.replace(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _edge_section(edge: EdgeAddress, seeds: list[str], *, local: bool) -> dict[str, Any]:
    host = LOOPBACK if local else "0.0.0.0"  # an edge on its own machine is there for callers elsewhere
    serve: dict[str, Any] = {"host": host, "port": edge.port}
    peers: dict[str, Any] = {"host": host, "port": edge.peer_port, "seeds": seeds}
    if not local:
        serve["token"] = TOKEN_FILE
        peers["address"] = edge.peer_address
    return {
        "edge": edge.name,
        "region": edge.region,
        "place": to_place(edge.place),
        "secret": "fleet.secret",
        "policy": "policy.txt",
        "serve": serve,
        "peers": peers | {"certificate": "edge.pem", "key": "edge.key", "authority": "ca.pem"},
    }
