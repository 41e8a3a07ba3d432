"""What a fleet folder holds, and the edges that it is for: names, regions, addresses. Written to ``fleet.toml``."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from alphaedge import toml
from alphaedge.errors import InvalidValue, check_number
from alphaedge.names import check_name

FLEET_FILE: Final = "fleet.toml"
AUTHORITY: Final = "authority"  # the folder with the key that signs certificates: it stays with the operator
LOOPBACK: Final = "127.0.0.1"
MAX_SLUG: Final = 48


class EdgeAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One edge. name: of its folder and its certificate. place: what the data call it. host: where others reach it."""

    name: str
    place: str
    region: str
    host: str
    port: int
    peer_port: int

    @property
    def url(self) -> str:
        """Where callers reach it."""
        return f"http://{self.host}:{self.port}"

    @property
    def peer_address(self) -> str:
        """Where peers reach it."""
        return f"{self.host}:{self.peer_port}"


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The edges of a fleet folder. data: the name of the data that it was made from. local: all on this machine."""

    data: str
    model: str
    local: bool
    edges: tuple[EdgeAddress, ...]

    @classmethod
    def load(cls, folder: Path) -> "Fleet":
        """Read ``fleet.toml`` of a fleet folder."""
        if not (folder / FLEET_FILE).is_file():
            allowed = f"a folder that `alphaedge fleet init` made, with {FLEET_FILE} in it"
            raise InvalidValue("fleet", str(folder), allowed)
        return toml.load(folder / FLEET_FILE, cls)

    def urls(self) -> dict[str, str]:
        """The address of each edge for callers, by what the data call it."""
        return {edge.place: edge.url for edge in self.edges}


def edge_names(places: Sequence[str]) -> list[str]:
    """Names of edges, from those of places: letters, digits and dashes, as in names of hosts, each name once.

    >>> edge_names(["Köln Süd", "Köln-Sud", "St. Pölten", "東京"])
    ['koln-sud', 'koln-sud-2', 'st-polten', 'edge']
    """
    found: list[str] = []
    for place in places:
        plain = unicodedata.normalize("NFKD", place).encode("ascii", "ignore").decode().lower()
        slug = re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_SLUG].strip("-") or "edge"
        if slug == AUTHORITY:
            slug += "-edge"
        name, number = slug, 2
        while name in found:
            name, number = f"{slug}-{number}", number + 1
        check_name("edge", name)
        found.append(name)
    return found


def addresses(places: Sequence[str], *, host: str | None, port: int, peer_port: int) -> list[EdgeAddress]:
    """An address for each place: on this machine, each with ports of its own, or on a host each.

    host: how others reach a host, with the name of the edge for ``{edge}``, such as ``{edge}.example.com``; None for
    this machine. port, peer_port: of all hosts, or of the first edge on this machine.
    """
    check_number("port", port, low=1, high=65_535, whole=True)
    check_number("peer_port", peer_port, low=1, high=65_535, whole=True)
    if host is not None and "{edge}" not in host and len(places) > 1:
        raise InvalidValue("host", host, "a name with {edge} in it, such as {edge}.example.com")
    last = max(port, peer_port) + len(places) - 1
    if host is None and last > 65_535:
        raise InvalidValue("port", last, "ports up to 65535: start lower")
    if host is None and abs(port - peer_port) < len(places):
        raise InvalidValue("peer_port", peer_port, f"at least {len(places)}, the number of edges, away from {port}")
    return [
        EdgeAddress(
            name=name,
            place=place,
            region=name,
            host=LOOPBACK if host is None else host.replace("{edge}", name),
            port=port + number if host is None else port,
            peer_port=peer_port + number if host is None else peer_port,
        )
        for number, (name, place) in enumerate(zip(edge_names(places), places, strict=True))
    ]
