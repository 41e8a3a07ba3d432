"""A network that splits in two and heals: real edges, each in a network namespace of its own, joined by a switch."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from alphaedge.edge.trust.authority import CertificateFolder

from ..credentials import utc_now
from ..hostile import alive_peers, peer, run_command, skip_or_fail, status
from ..processes import BATCH, EVERY, Edge, events, wait_for

EDGES = ("berlin", "boston", "beijing", "bogota", "brisbane")
NORTH, SOUTH = (0, 1), (2, 3, 4)  # positions of the edges on each side of the partition
PEER_PORT, API_PORT = 8443, 8080
WAIT_SECONDS = 120.0
POST_SCRIPT = """
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.stdin.buffer.read())
print(urllib.request.urlopen(request, timeout=30).read().decode())
"""


class Network:
    """One namespace per edge, a cable from each to a switch, and a second switch that some are moved to.

    The switches have a namespace as well: nothing here touches the machine's own network or firewall.
    """

    def __init__(self, count: int) -> None:
        self.switch, self.namespaces = f"ae{os.getpid()}s", [f"ae{os.getpid()}n{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]

    def build(self) -> None:
        for namespace in (self.switch, *self.namespaces):
            run_command("ip", "netns", "add", namespace)
            run_command("ip", "-n", namespace, "link", "set", "lo", "up")
        for bridge in ("one", "two"):
            run_command("ip", "-n", self.switch, "link", "add", bridge, "type", "bridge")
            run_command("ip", "-n", self.switch, "link", "set", bridge, "up")
        for i, namespace in enumerate(self.namespaces):
            cable = ("link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
            run_command("ip", "-n", self.switch, *cable)
            run_command("ip", "-n", namespace, "addr", "add", f"{self.addresses[i]}/24", "dev", "eth0")
            run_command("ip", "-n", namespace, "link", "set", "eth0", "up")
            run_command("ip", "-n", self.switch, "link", "set", f"port{i}", "up")
        self.plug(range(len(self.namespaces)), "one")

    def plug(self, positions: Sequence[int], bridge: str) -> None:
        """Plug some cables into a switch."""
        for i in positions:
            run_command("ip", "-n", self.switch, "link", "set", f"port{i}", "master", bridge)

    def remove(self) -> None:
        for namespace in (*self.namespaces, self.switch):
            with contextlib.suppress(OSError):  # ``build`` may have failed before it
                run_command("ip", "netns", "delete", namespace)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(len(EDGES))
    try:
        made.build()
    except OSError as error:
        made.remove()
        skip_or_fail(f"can't create network namespaces: {error}")
    yield made
    made.remove()


class NamespacedEdge(Edge):
    """An edge in a network namespace, which can be called only from there."""

    def __init__(self, namespace: str, folder: Path, **changes: Any) -> None:
        super().__init__(folder, **changes)
        self.name = folder.name
        self._python = ["ip", "netns", "exec", namespace, sys.executable]

    def start(self) -> None:
        command = [*self._python, "-m", "alphaedge", "edge", "serve", "--config", str(self.path)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> dict[str, Any]:
        command = [*self._python, "-I", "-c", POST_SCRIPT, f"http://127.0.0.1:{API_PORT}{path}"]
        result = subprocess.run(command, input=json.dumps(body).encode(), capture_output=True, check=True)
        return dict(json.loads(result.stdout))


@pytest.fixture
def edges(network: Network, tmp_path: Path) -> Iterator[list[NamespacedEdge]]:
    folder, now = CertificateFolder(tmp_path / "certs"), utc_now()
    folder.init("shops", now=now, days=100)
    made = []
    for i, name in enumerate(EDGES):
        folder.issue(name, "DE", [network.addresses[i]], now=now, days=50)
        peers = {
            "host": network.addresses[i],
            "port": PEER_PORT,
            "seeds": [f"{network.addresses[0]}:{PEER_PORT}"] if i else [],
            "certificate": f"../certs/{name}.pem",
            "key": f"../certs/{name}.key",
            "authority": "../certs/ca.pem",
        }
        changes = {"edge": name, "peers": peers, "serve": {"port": API_PORT}}
        made.append(NamespacedEdge(network.namespaces[i], tmp_path / name, **changes))
    try:
        for edge in made:
            edge.start()
        yield made
    finally:
        for edge in made:
            edge.end()


def learn(edge: Edge, seed: int) -> None:
    """Report the labels of one aggregation period."""
    some = events(BATCH * EVERY, seed)
    _, ids = edge.predict([e[0] for e in some], [e[1] for e in some], [e[2] for e in some])
    feedback = {"ids": ids, "labels": [e[3] for e in some]}
    assert edge.post("/v2/models/shop/feedback", feedback)["accepted"] == len(some)


def all_learn(edges: Sequence[Edge], seed: int) -> None:
    for position, edge in enumerate(edges):
        learn(edge, seed + position)


def publications(edge: Edge, peers: set[str]) -> set[int]:
    """Return the numbers of the publications of some peers that an edge knows of."""
    return {peer(edge, name).publication for name in peers}


def wait_for_all(edges: Sequence[NamespacedEdge], condition: Callable[[NamespacedEdge], bool], what: str) -> None:
    wait_for(lambda: all(condition(edge) for edge in edges), what, WAIT_SECONDS)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_halves_of_a_partition_go_on_and_find_each_other_again(
    network: Network, edges: list[NamespacedEdge]
) -> None:
    others = {name: set(EDGES) - {name} for name in EDGES}
    wait_for_all(edges, lambda e: alive_peers(e) == others[e.name], "every edge to see every other")
    all_learn(edges, seed=0)
    wait_for_all(edges, lambda e: publications(e, others[e.name]) == {1}, "every edge to hear of every publication")

    network.plug(NORTH, "two")
    near = {EDGES[i]: {EDGES[j] for j in side if j != i} for side in (NORTH, SOUTH) for i in side}
    far = {name: others[name] - near[name] for name in EDGES}
    wait_for_all(edges, lambda e: alive_peers(e) == near[e.name], "the partition to be noticed")
    all_learn(edges, seed=100)
    wait_for_all(edges, lambda e: status(e).aggregations == 2, "both sides to go on")
    wait_for_all(edges, lambda e: publications(e, near[e.name]) == {2}, "every edge to hear from its side")
    for edge in edges:
        assert publications(edge, far[edge.name]) == {1}, "nothing comes from the other side"

    network.plug(NORTH, "one")
    wait_for_all(edges, lambda e: alive_peers(e) == others[e.name], "every edge to see every other again")
    wait_for_all(edges, lambda e: publications(e, others[e.name]) == {2}, "every edge to hear from the other side")
    all_learn(edges, seed=200)
    wait_for_all(edges, lambda e: status(e).aggregations == 3, "an aggregation with neighbours from all edges")
    for edge in edges:
        assert any(peer(edge, name).neighbour for name in far[edge.name]), "the sides are neighbours again"
