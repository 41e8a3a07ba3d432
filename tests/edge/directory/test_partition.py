"""A net that breaks in two and heals: real edges, each in a network namespace of its own, joined by a switch."""

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from alphaedge.edge.trust.authority import CertificateFolder

from ..hostile import peer, run_command, skip_or_fail, status
from ..processes import BATCH, EVERY, Edge, events, wait_for

NAMES = ("berlin", "boston", "beijing", "bogota", "brisbane")
PORT = 8443
CALL = """
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.stdin.buffer.read())
print(urllib.request.urlopen(request, timeout=30).read().decode())
"""


class Net:
    """Namespaces, a cable from each to a switch, and a second switch to which some are moved.

    The switches have a namespace as well: nothing here touches the machine's own net, nor its firewall.
    """

    def __init__(self, count: int) -> None:
        self.switch, self.places = f"ae{os.getpid()}s", [f"ae{os.getpid()}n{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]

    def build(self) -> None:
        for place in (self.switch, *self.places):
            run_command("ip", "netns", "add", place)
            run_command("ip", "-n", place, "link", "set", "lo", "up")
        for bridge in ("one", "two"):
            run_command("ip", "-n", self.switch, "link", "add", bridge, "type", "bridge")
            run_command("ip", "-n", self.switch, "link", "set", bridge, "up")
        for i, place in enumerate(self.places):
            run_command(
                *("ip", "-n", self.switch, "link", "add", f"port{i}", "type", "veth"),
                *("peer", "name", "eth0", "netns", place),
            )
            run_command("ip", "-n", place, "addr", "add", f"{self.addresses[i]}/24", "dev", "eth0")
            run_command("ip", "-n", place, "link", "set", "eth0", "up")
            run_command("ip", "-n", self.switch, "link", "set", f"port{i}", "up")
        self.plug(range(len(self.places)), "one")

    def plug(self, which: Sequence[int], bridge: str) -> None:
        """Put some cables into a switch."""
        for i in which:
            run_command("ip", "-n", self.switch, "link", "set", f"port{i}", "master", bridge)

    def remove(self) -> None:
        for place in (*self.places, self.switch):
            with contextlib.suppress(OSError):  # it may not have got so far
                run_command("ip", "netns", "delete", place)


@pytest.fixture
def net() -> Iterator[Net]:
    made = Net(len(NAMES))
    try:
        made.build()
    except OSError as error:
        made.remove()
        skip_or_fail(f"can't create network namespaces: {error}")
    yield made
    made.remove()


class Placed(Edge):
    """An edge in a namespace; only from there can it be called."""

    def __init__(self, place: str, folder: Path, **changes: Any) -> None:
        super().__init__(folder, **changes)
        self.place = place

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self._inside(), "-m", "alphaedge", "edge", "serve", "--config", str(self.path)],
            stdout=subprocess.DEVNULL,
        )

    def _inside(self) -> list[str]:
        return ["ip", "netns", "exec", self.place, sys.executable]

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:8080{path}"
        words = [*self._inside(), "-I", "-c", CALL, url]
        done = subprocess.run(words, input=json.dumps(body).encode(), capture_output=True, check=True)
        return dict(json.loads(done.stdout))


@pytest.fixture
def edges(net: Net, tmp_path: Path) -> Iterator[list[Placed]]:
    authority, now = CertificateFolder(tmp_path / "certs"), dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=100)
    made = []
    for i, name in enumerate(NAMES):
        authority.issue(name, "DE", [net.addresses[i]], now=now, days=50)
        peers = {
            "host": net.addresses[i],
            "port": PORT,
            "seeds": [f"{net.addresses[0]}:{PORT}"] if i else [],
            "certificate": f"../certs/{name}.pem",
            "key": f"../certs/{name}.key",
            "authority": "../certs/ca.pem",
        }
        made.append(Placed(net.places[i], tmp_path / name, edge=name, peers=peers, serve={"port": 8080}))
    try:
        for edge in made:
            edge.start()
        yield made
    finally:
        for edge in made:
            edge.end()


def learn(edge: Edge, seed: int) -> None:
    """One period."""
    some = events(BATCH * EVERY, seed)
    _, ids = edge.predict([e[0] for e in some], [e[1] for e in some], [e[2] for e in some])
    told = {"ids": ids, "labels": [e[3] for e in some]}
    assert edge.post("/v2/models/shop/feedback", told)["accepted"] == len(some)


def there(edge: Edge) -> set[str]:
    """The others that an edge believes to be there."""
    return {name for name, one in status(edge).peers.items() if one.alive}


def await_views(edges: Sequence[Edge], right: Callable[[Edge], bool], what: str, seconds: float = 60) -> None:
    wait_for(lambda: all(right(e) for e in edges), what, seconds)


@pytest.mark.long
def test_halves_of_a_broken_net_go_on_alone_and_find_each_other_again(net: Net, edges: list[Placed]) -> None:
    everybody = set(NAMES)
    await_views(edges, lambda e: there(e) == everybody - {e.folder.name}, "all to know all", 120)
    for place, edge in enumerate(edges):
        learn(edge, place)
    await_views(edges, lambda e: all(p.publication == 1 for p in status(e).peers.values()), "all to hear of all")

    net.plug([0, 1], "two")
    sides = {e.folder.name: set(NAMES[:2]) if place < 2 else set(NAMES[2:]) for place, e in enumerate(edges)}
    await_views(edges, lambda e: there(e) == sides[e.folder.name] - {e.folder.name}, "the break to be noticed")
    for place, edge in enumerate(edges):
        learn(edge, 100 + place)
    await_views(edges, lambda e: status(e).aggregations == 2, "both sides to go on")
    for edge in edges:
        mine, name = sides[edge.folder.name], edge.folder.name
        wait_for(lambda e=edge, m=mine - {name}: all(peer(e, j).publication == 2 for j in m), "news of the own side")  # type: ignore[misc]
        assert all(peer(edge, j).publication == 1 for j in everybody - mine), "nothing comes from the other side"

    net.plug([0, 1], "one")
    whole = dict.fromkeys(NAMES, 2)
    await_views(
        edges,
        lambda e: {j: p.publication for j, p in status(e).peers.items() if p.alive} | {e.folder.name: 2} == whole,
        "all to know all, and the last of all, again",
        seconds=20,
    )
    for place, edge in enumerate(edges):
        learn(edge, 200 + place)
    await_views(edges, lambda e: status(e).aggregations == 3, "an aggregation that may choose from all")
    across = {e.folder.name: everybody - sides[e.folder.name] for e in edges}
    assert all(any(peer(e, j).neighbour for j in across[e.folder.name]) for e in edges), "they are neighbours again"
