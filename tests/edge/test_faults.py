"""Faults of others: peers that lie, strangers, rude callers."""

import contextlib
import datetime as dt
import itertools
import re
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.credentials import IDENTITY_HEADER

from . import hostile
from .credentials import utc_now
from .hostile import EdgeLog, Mallory, Pull, bystander, encode_delta, forge, lie, peak_memory, peer, status
from .processes import Edge, fleet_of, teach, wait_for

DAY = dt.timedelta(days=1)


class Fleet(NamedTuple):
    path: Path
    edges: list[Edge]
    mallory: Mallory
    edge_log: EdgeLog


def fill(value: float, kind: torch.dtype = torch.float32) -> Pull:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["dense"] = torch.full_like(tensors["dense"], value).to(kind)

    return lie(lambda answer: forge(answer, change))


def longer(tensors: dict[str, torch.Tensor]) -> None:
    tensors["dense"] = torch.cat([tensors["dense"], torch.zeros(7)])


REFUSED: dict[str, tuple[Pull, str]] = {
    "garbage": (lie(lambda _: bytes(range(256)) * 40), "can't be parsed"),
    "not a number": (fill(float("nan")), "dense is not finite"),
    "other shapes": (lie(lambda answer: forge(answer, longer)), "dense has shape"),
    "an old version again": (hostile.replay, "is already held"),
    "implausible size": (fill(1e6), "times as large"),
    "another schema": (
        lie(lambda answer: forge(answer, schema="0123456789abcdef")),
        "schema 0123456789abcdef does not mix",
    ),
    "numbers of a byte": (fill(0.0, torch.float8_e4m3fn), "dense"),
    "a version that can't be": (lie(lambda answer: forge(answer, number=10**30)), "number"),
    "records that can't be": (lie(lambda answer: forge(answer, records=10**400)), "records"),
}
FAILED: dict[str, tuple[Pull, str]] = {
    "half an answer": (hostile.half, "Payload"),
    "no HTTP": (hostile.noise, "127.0.0.1"),
    "an error page that is no text": (hostile.no_text, "500"),
    "an endless error page": (hostile.endless_error, "500"),
    "nothing": (hostile.hang, "no answer within"),
}


def aggregate(edges: list[Edge], seed: int) -> None:
    """Let all edges learn and aggregate once."""
    counts = {e.folder.name: status(e).aggregations for e in edges}
    for place, edge in enumerate(edges):
        teach(edge, 1, seed=seed + place)  # predicts, and waits until all is learned
    for edge in edges:
        wait_for(lambda e=edge, c=counts: status(e).aggregations > c[e.folder.name], "its status")  # type: ignore[misc]


def noticed(edges: list[Edge], what: str, count: Callable[[Edge], int], seed: int) -> None:
    """Let all edges learn and aggregate until each has counted one more of mallory's doings."""
    before = {e.folder.name: count(e) for e in edges}
    learners = {e.folder.name: e.learners() for e in edges}
    for round_ in range(100):
        aggregate(edges, 1000 * seed + 10 * round_)
        for edge in edges:
            assert edge.learners() == learners[edge.folder.name], f"the learner of {edge.folder.name} has died"
        if all(count(e) > before[e.folder.name] for e in edges):
            return
    raise AssertionError(f"not noticed: {what}; {[peer(e, 'mallory') for e in edges]}")


def count_pulls(edge: Edge) -> int:
    return peer(edge, "mallory").pulls


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two honest edges, and mallory."""
    path = tmp_path_factory.mktemp("fleet")
    edge_log = EdgeLog(path / "log")
    with contextlib.ExitStack() as stack:
        with edge_log.capture():
            edges = stack.enter_context(fleet_of(path, [("berlin", "DE"), ("boston", "US")]))
        mallory = stack.enter_context(Mallory(path / "certs", edges))
        for edge in edges:
            wait_for(lambda e=edge: peer(e, "mallory").alive, "mallory to be known")  # type: ignore[misc]
        yield Fleet(path, edges, mallory, edge_log)


def check_survival(fleet: Fleet, what: str, event: str, reason: str, seed: int) -> None:
    """Wait until both edges log the event for this reason (there may be others before it); mallory has no share."""

    def count(edge: Edge) -> int:
        reasons = fleet.edge_log.reasons(edge=edge.folder.name, peer="mallory", event=event)
        return sum(re.search(reason, found) is not None for found in reasons)

    noticed(fleet.edges, what, count, seed)
    aggregate(fleet.edges, 1000 * seed + 999)  # the last one may have had a model that was pulled before
    assert [peer(edge, "mallory").share for edge in fleet.edges] == [0.0, 0.0], what


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_member_that_lies_is_refused_and_the_others_go_on(fleet: Fleet) -> None:
    edges, mallory = fleet.edges, fleet.mallory
    for seed in (200, 201):  # an old version and a newer one
        noticed(edges, "an honest model", count_pulls, seed)
    memory = {e.folder.name: peak_memory(e.learners()[0]) for e in edges}
    with bystander() as (secret, heard):
        acts = [(what, pull, "peer_model_refused", reason) for what, (pull, reason) in REFUSED.items()]
        acts += [(what, pull, "pull_failed", reason) for what, (pull, reason) in FAILED.items()]
        acts.append(("it sends them elsewhere", hostile.redirect(secret), "pull_failed", "307"))
        for seed, (what, pull, event, reason) in enumerate(acts):
            mallory.pull = pull
            check_survival(fleet, what, event, reason, seed)
            mallory.pull = hostile.honest  # it is left alone for longer each time, until it behaves again
            noticed(edges, "an honest model", count_pulls, 100 + seed)
        assert heard == [], "redirects are not followed"
    for edge in edges:
        assert peak_memory(edge.learners()[0]) < memory[edge.folder.name] + 150_000_000, "answers are read only so far"
    assert all(peer(e, "mallory").share > 0 for e in edges), "a peer that behaves again is mixed again"
    assert all(peer(a, b.folder.name).alive for a, b in itertools.permutations(edges)), "and they still talk"


def test_an_edge_cannot_speak_for_another(fleet: Fleet) -> None:
    (berlin, boston), mallory = fleet.edges, fleet.mallory
    before = status(boston).announcements_refused
    false = Announcement(edge="berlin", region="DE", address=mallory.address, schema="x", version=2**60, publication=9)
    mallory.run(
        mallory.client.request(
            boston.address, "delta", encode_delta(mallory.credentials.sign(false)), max_bytes=0, edge="boston"
        )
    )
    wait_for(lambda: status(boston).announcements_refused > before, "the announcement to be refused")
    mallory.run(mallory.announce(address=berlin.address))
    check_survival(fleet, "another's address", "pull_failed", "berlin answers there, not mallory", 300)
    pulls = peer(boston, "berlin").pulls
    teach(boston, 1, seed=301)
    wait_for(lambda: peer(boston, "berlin").pulls > pulls, "boston to pull from the true berlin")
    (fleet.path / "policy").write_text("deny from=boston to=mallory\n")
    wait_for(lambda: "deny from=boston" in mallory.run(mallory.send_bad_pull(boston, {})), "the rule to hold")
    answer = mallory.run(mallory.send_bad_pull(boston, {IDENTITY_HEADER: "berlin DE"}))
    assert answer == "403: deny from=boston to=mallory", "a header does not prove a name"
    (fleet.path / "policy").write_text("")
    mallory.run(mallory.announce())


def knock(address: str, context: ssl.SSLContext | None) -> str:
    """Return the answer of a peer's port; nothing if it refuses the connection."""
    host, port = address.split(":")
    try:
        with contextlib.ExitStack() as stack:
            link = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            if context is not None:
                link = stack.enter_context(context.wrap_socket(link, server_hostname=host))
            link.sendall(b"POST /peer/pull HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx")
            return link.recv(1000).decode("latin-1")
    except (ssl.SSLError, ConnectionError):
        return ""


def test_a_peer_without_a_good_certificate_is_refused(fleet: Fleet) -> None:
    certs, address = fleet.path / "certs", fleet.edges[0].address
    ours, theirs = CertificateFolder(certs), CertificateFolder(fleet.path / "theirs")
    theirs.init("shops", now=utc_now(), days=100)  # of the same name
    theirs.issue("boston", "US", ["127.0.0.1"], now=utc_now(), days=50)
    ours.issue("old", "US", ["127.0.0.1"], now=utc_now() - 60 * DAY, days=50)
    ours.issue("early", "US", ["127.0.0.1"], now=utc_now() + 10 * DAY, days=50)

    def showing(folder: Path, edge: str | None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(certs / "ca.pem"))
        if edge is not None:
            made.load_cert_chain(folder / f"{edge}.pem", folder / f"{edge}.key")
        return made

    old_tls = showing(certs, "boston")
    old_tls.maximum_version = ssl.TLSVersion.TLSv1_2
    strangers = {
        "no certificate": showing(certs, None),
        "a foreign one": showing(theirs.path, "boston"),
        "an expired one": showing(certs, "old"),
        "one of the future": showing(certs, "early"),
        "an old protocol": old_tls,
        "no protocol": None,
    }
    for what, context in strangers.items():
        assert "HTTP" not in knock(address, context), what
    assert "HTTP/1.1 409" in knock(address, showing(certs, "boston")), "a member gets an answer"
    assert peer(fleet.edges[1], "berlin").alive
    teach(fleet.edges[0], 1, seed=400)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(500) + b"\r\n\r\n", "400"),
    "a negative length": (b"POST /v2/models/shop/infer HTTP/1.1\r\ncontent-length: -5\r\n\r\n{}", "400"),
    "two lengths": (b"POST /v2 HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", "400"),
    "a length and chunks": (
        b"POST /v2/models/shop/infer HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "400",
    ),
    "chunks of no size": (
        b"POST /v2/models/shop/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n{}\r\n",
        "400",
    ),
    "endless headers": (b"GET /v2 HTTP/1.1\r\n" + b"x-more: %s\r\n" % (b"y" * 1000) * 100_000, "431|400"),
    "an endless path": (b"GET /v2/" + b"z" * 100_000_000, "414|431|400"),
}


def say(url: str, data: bytes) -> str:
    """Send bytes; return the server's answer before it hangs up."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as link:
        with contextlib.suppress(ConnectionError):  # it may hang up before everything is sent
            link.sendall(data)
        with contextlib.suppress(ConnectionError):
            return link.recv(10_000).decode("latin-1")
    return ""


def test_malformed_requests_are_refused_and_other_callers_do_not_notice(edge: Edge) -> None:
    edge.start()
    assert edge.process is not None
    edge.predict(["ann"], [1], [[0.0, 0.0]])
    before = peak_memory(edge.process.pid)
    for what, (data, expected) in MALFORMED.items():
        assert re.match(rf"HTTP/1.1 ({expected})|$", say(edge.url, data)), what
        edge.predict(["ann"], [1], [[0.0, 0.0]])
    assert peak_memory(edge.process.pid) < before + 50_000_000, "refused data is not kept"
    unknown = edge.post("/v2/models/shop/feedback", {"ids": [2**62, 10**6], "labels": [1, 0]})
    assert unknown == {"accepted": 0, "known": 0, "expired": 0, "unknown": 2}


@pytest.mark.long
def test_requests_that_never_end_do_not_block_others(edge: Edge) -> None:
    edge.start()
    assert edge.process is not None
    resource.prlimit(edge.process.pid, resource.RLIMIT_NOFILE, (200, 200))
    host, port = edge.url.removeprefix("http://").split(":")
    slow = []
    try:
        for place in range(300):
            slow.append(socket.create_connection((host, int(port)), timeout=60))
            unfinished = b"content-length: 1000\r\n\r\n{" if place % 2 else b"x-slow: "
            slow[-1].sendall(b"POST /v2/models/shop/infer HTTP/1.1\r\n" + unfinished)

        def heard() -> bool:
            with contextlib.suppress(TimeoutError):  # there may be no room for another connection for a while
                return edge.ready()
            return False

        wait_for(heard, "room for another connection", 120)
        edge.predict(["ann"], [1], [[0.0, 0.0]])
    finally:
        for one in slow:
            one.close()
