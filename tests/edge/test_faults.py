"""Faults of others and of the machine: peers that lie, strangers, rude callers, full disks, damaged files."""

import asyncio
import contextlib
import datetime as dt
import itertools
import os
import re
import resource
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from alphaedge.edge.authority import Folder
from alphaedge.edge.clock import steady
from alphaedge.edge.config import load
from alphaedge.edge.learning import Learning, learned_so_far
from alphaedge.edge.records import About
from alphaedge.edge.service import Service
from alphaedge.edge.trust import NAME

from . import hostile
from .hostile import Lines, Mallory, Pull, bystander, forged, lie, news, peak_memory, peer, small_disk, status, today
from .processes import BATCH, EVERY, Edge, events, fleet_of, send, teach, tell, wait_for

DAY = dt.timedelta(days=1)


class Fleet(NamedTuple):
    path: Path
    edges: list[Edge]
    mallory: Mallory
    lines: Lines


def fill(value: float, kind: torch.dtype = torch.float32) -> Pull:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["dense"] = torch.full_like(tensors["dense"], value).to(kind)

    return lie(lambda answer: forged(answer, change))


def longer(tensors: dict[str, torch.Tensor]) -> None:
    tensors["dense"] = torch.cat([tensors["dense"], torch.zeros(7)])


REFUSED: dict[str, tuple[Pull, str]] = {
    "garbage": (lie(lambda _: bytes(range(256)) * 40), "can't be read"),
    "not a number": (fill(float("nan")), "dense is not finite"),
    "other shapes": (lie(lambda answer: forged(answer, longer)), "dense has shape"),
    "an old version again": (hostile.replay, "is held already"),
    "implausible size": (fill(1e6), "times as large"),
    "another schema": (lie(lambda answer: forged(answer, schema="0123456789abcdef")), "of schema 0123456789abcdef"),
    "numbers of a byte": (fill(0.0, torch.float8_e4m3fn), "dense"),
    "a version that can't be": (lie(lambda answer: forged(answer, number=10**30)), "number"),
    "records that can't be": (lie(lambda answer: forged(answer, records=10**400)), "records"),
}
FAILED: dict[str, tuple[Pull, str]] = {
    "half an answer": (hostile.half, "Payload"),
    "no HTTP": (hostile.noise, "127.0.0.1"),
    "an error page that is no text": (hostile.no_text, "500"),
    "an endless error page": (hostile.endless_error, "500"),
    "nothing": (hostile.hang, "no answer in"),
}


def noticed(edges: list[Edge], counter: str, seed: int) -> None:
    """Let all edges learn and aggregate until each has counted one more of mallory's doings."""
    before = {e.folder.name: getattr(peer(e, "mallory"), counter) for e in edges}
    learners = {e.folder.name: e.learners() for e in edges}
    for round_ in range(100):
        counts = {e.folder.name: status(e).aggregations for e in edges}
        for place, edge in enumerate(edges):
            assert edge.learners() == learners[edge.folder.name], f"the learner of {edge.folder.name} has died"
            teach(edge, 1, seed=1000 * seed + 10 * round_ + place)  # predicts, and waits until all is learned
        for edge in edges:
            wait_for(lambda e=edge, c=counts: status(e).aggregations > c[e.folder.name], "its status")  # type: ignore[misc]
        if all(getattr(peer(e, "mallory"), counter) > before[e.folder.name] for e in edges):
            return
    raise AssertionError(f"{counter} has not grown: {[peer(e, 'mallory') for e in edges]}")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two honest edges, and mallory."""
    path = tmp_path_factory.mktemp("fleet")
    lines = Lines(path / "log")
    with contextlib.ExitStack() as stack:
        with lines.heard():
            edges = stack.enter_context(fleet_of(path, [("berlin", "DE"), ("boston", "US")]))
        mallory = stack.enter_context(Mallory(path / "certs", edges))
        for edge in edges:
            wait_for(lambda e=edge: peer(e, "mallory").alive, "mallory to be known")  # type: ignore[misc]
        yield Fleet(path, edges, mallory, lines)


def check_survival(fleet: Fleet, what: str, counter: str, reason: str, seed: int) -> None:
    noticed(fleet.edges, counter, seed)
    event = {"refused": "a peer's model is refused", "failures": "no model from a peer"}[counter]
    for edge in fleet.edges:
        told = fleet.lines.reasons(edge=edge.folder.name, peer="mallory", event=event)
        assert any(re.search(reason, t) for t in told), f"{what}: {edge.folder.name} says only {told}"
        assert peer(edge, "mallory").share == 0.0, what


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_member_that_lies_is_refused_and_the_others_go_on(fleet: Fleet) -> None:
    edges, mallory = fleet.edges, fleet.mallory
    for seed in (200, 201):  # an old version and a newer one
        noticed(edges, "pulls", seed)
    memory = {e.folder.name: peak_memory(e.learners()[0]) for e in edges}
    with bystander() as (secret, heard):
        acts = [(what, pull, "refused", reason) for what, (pull, reason) in REFUSED.items()]
        acts += [(what, pull, "failures", reason) for what, (pull, reason) in FAILED.items()]
        acts.append(("it sends them elsewhere", hostile.elsewhere(secret), "failures", "307"))
        for seed, (what, pull, counter, reason) in enumerate(acts):
            mallory.pull = pull
            check_survival(fleet, what, counter, reason, seed)
            if counter == "failures":  # a peer that fails is left alone for longer each time: until it behaves again
                mallory.pull = hostile.honest
                noticed(edges, "pulls", 100 + seed)
        assert heard == [], "nobody is sent elsewhere"
    for edge in edges:
        assert peak_memory(edge.learners()[0]) < memory[edge.folder.name] + 150_000_000, "nobody reads for ever"
    assert all(peer(e, "mallory").share > 0 for e in edges), "who behaves again is mixed in again"
    assert all(peer(a, b.folder.name).alive for a, b in itertools.permutations(edges)), "and they still talk"


def test_nobody_speaks_for_another(fleet: Fleet) -> None:
    (berlin, boston), mallory = fleet.edges, fleet.mallory
    before = status(boston).records_refused
    false = About(edge="berlin", region="DE", address=mallory.address, schema="x", version=2**60, publication=9)
    mallory.do(mallory.client.ask(boston.address, "news", news(mallory.trust.sign(false)), edge="boston"))
    wait_for(lambda: status(boston).records_refused > before, "the record to be refused")
    mallory.do(mallory.speak(address=berlin.address))
    check_survival(fleet, "another's address", "failures", "berlin answers there, not mallory", 300)
    pulls = peer(boston, "berlin").pulls
    teach(boston, 1, seed=301)
    wait_for(lambda: peer(boston, "berlin").pulls > pulls, "boston to fetch from the true berlin")
    (fleet.path / "policy").write_text("deny from=boston to=mallory\n")
    wait_for(lambda: "deny from=boston" in mallory.do(mallory.asks(boston, {})), "the rule to hold")
    told = mallory.do(mallory.asks(boston, {NAME: "berlin DE"}))
    assert told == "403: deny from=boston to=mallory", "a header is nobody's name"
    (fleet.path / "policy").write_text("")
    mallory.do(mallory.speak())


def knock(address: str, context: ssl.SSLContext | None) -> str:
    """What a peer's port says to somebody; nothing if it does not talk to him."""
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


def test_without_a_good_certificate_nobody_gets_in(fleet: Fleet) -> None:
    certs, address = fleet.path / "certs", fleet.edges[0].address
    ours, theirs = Folder(certs), Folder(fleet.path / "theirs")
    theirs.init("shops", now=today(), days=100)  # of the same name
    theirs.issue("boston", "US", ["127.0.0.1"], now=today(), days=50)
    ours.issue("old", "US", ["127.0.0.1"], now=today() - 60 * DAY, days=50)
    ours.issue("early", "US", ["127.0.0.1"], now=today() + 10 * DAY, days=50)

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
    assert "HTTP/1.1 409" in knock(address, showing(certs, "boston")), "a member is listened to"
    assert peer(fleet.edges[1], "berlin").alive
    teach(fleet.edges[0], 1, seed=400)


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    made = Edge(tmp_path / "edge")
    yield made
    made.end()


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "log")


RUDE: dict[str, tuple[bytes, str]] = {
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
    """What the server answers to some bytes, before it hangs up."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as link:
        with contextlib.suppress(ConnectionError):  # it may well hang up before it has heard everything
            link.sendall(data)
        with contextlib.suppress(ConnectionError):
            return link.recv(10_000).decode("latin-1")
    return ""


def test_rude_callers_are_refused_and_others_do_not_notice(edge: Edge) -> None:
    edge.start()
    assert edge.process is not None
    edge.predict(["ann"], [1], [[0.0, 0.0]])
    before = peak_memory(edge.process.pid)
    for what, (data, expected) in RUDE.items():
        assert re.match(rf"HTTP/1.1 ({expected})|$", say(edge.url, data)), what
        edge.predict(["ann"], [1], [[0.0, 0.0]])
    assert peak_memory(edge.process.pid) < before + 50_000_000, "nobody keeps what it will not read"
    unknown = edge.post("/v2/models/shop/feedback", {"ids": [2**62, 10**6], "labels": [1, 0]})
    assert unknown == {"accepted": 0, "known": 0, "expired": 0, "unknown": 2}


@pytest.mark.long
def test_callers_who_never_finish_do_not_keep_others_out(edge: Edge) -> None:
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
            with contextlib.suppress(TimeoutError):  # there may be no room for this caller, for a while
                return edge.ready()
            return False

        wait_for(heard, "room for a caller who does finish", 120)
        edge.predict(["ann"], [1], [[0.0, 0.0]])
    finally:
        for one in slow:
            one.close()


def journalled(edge: Edge) -> dict[int, float]:
    """All feedback that the journal has."""
    with contextlib.closing(sqlite3.connect(edge.folder / "data" / "journal.db")) as db:
        return dict(db.execute("select prediction, label from feedback"))


def start_again(edge: Edge, lines: Lines, aggregations: int) -> None:
    """Start it, and wait until its learner, too, is where it was."""
    now = time.time()
    with lines.heard():
        edge.start()
    wait_for(lambda: status(edge).started > now and status(edge).aggregations == aggregations, "it to have caught up")


def outputs(edge: Edge) -> list[float]:
    return edge.predict(["u1", "u2", "nobody"], [2, 3, 4], [[0.5, -0.5]] * 3)[0]


INPUTS = [
    {"name": "user", "shape": [50], "datatype": "BYTES", "data": ["ann"] * 50},
    {"name": "item", "shape": [50], "datatype": "INT64", "data": list(range(50))},
    {"name": "x", "shape": [50, 2], "datatype": "FP32", "data": [0.5] * 100},
]


def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(edge: Edge) -> None:
    data = edge.folder / "data"
    with small_disk(data, 16):
        edge.start()
        told = send(edge, events(BATCH * EVERY))
        assert tell(edge, told)["accepted"] == len(told)
        waiting = send(edge, events(BATCH * EVERY, seed=1))
        balloon = data / "balloon"
        with contextlib.suppress(OSError), balloon.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

        def refused() -> dict[str, Any] | None:
            """What a caller hears once the last place is taken, and all can see that the edge is not ready."""
            answer = edge.post("/v2/models/shop/infer", {"inputs": INPUTS})
            return answer if "error" in answer and not edge.ready() else None

        wait_for(refused, "the disk to be full")
        told_why = edge.post("/v2/models/shop/infer", {"inputs": INPUTS})
        assert told_why["status"] == 503
        assert "journal.db" in told_why["error"]
        assert edge.get("/v2/health/live")["live"]
        full = tell(edge, waiting)
        assert full.get("status") == 503 or full["accepted"] == len(waiting)
        balloon.unlink()
        wait_for(edge.ready, "the edge to be ready again")
        again = tell(edge, waiting)
        assert again["accepted"] + again["known"] == len(waiting)
        teach(edge, 1, seed=2)
        assert edge.stop() == 0
        assert dict(told + waiting).items() <= journalled(edge).items()
        assert learned_so_far(data) == 3 * BATCH * EVERY
        edge.end()


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "all"])
def test_damaged_checkpoints_are_said_and_the_journal_makes_up_for_them(edge: Edge, lines: Lines, damaged: int) -> None:
    edge.start()
    for seed in range(3):
        teach(edge, 1, seed)
    before = outputs(edge)
    edge.kill()
    checkpoints = sorted((edge.folder / "data" / "checkpoints").glob("*.safetensors"))
    assert len(checkpoints) == 2
    for path in checkpoints[-damaged:]:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    half_written = checkpoints[-1].with_suffix(".part")
    half_written.write_bytes(checkpoints[0].read_bytes()[:1000])  # and it was killed while it wrote another
    start_again(edge, lines, 3)
    assert outputs(edge) == before
    reasons = lines.reasons(event="a checkpoint is refused")
    assert [str(p) in reason for p, reason in zip(reversed(checkpoints), reasons, strict=False)] == [True] * damaged
    teach(edge, 1, seed=9)
    assert edge.stop() == 0
    assert not list(edge.folder.rglob("*.part"))
    assert not lines.events(process="server", level="warning"), "the learner has not died"


def test_a_damaged_checkpoint_costs_nothing_though_the_journal_forgets(tmp_path: Path, lines: Lines) -> None:
    edge = Edge(tmp_path / "edge", feedback={"window": 2.0})
    edge.start()
    try:
        for seed in range(3):
            teach(edge, 1, seed)
        wait_for(lambda: len(journalled(edge)) < 3 * BATCH * EVERY, "the journal to forget what is old")
        before = outputs(edge)
        edge.kill()
        newest = max((edge.folder / "data" / "checkpoints").glob("*.safetensors"))
        newest.write_bytes(newest.read_bytes()[:-100])
        start_again(edge, lines, 3)
        assert outputs(edge) == before
    finally:
        edge.end()


def test_a_torn_end_of_the_journal_is_dropped_and_all_before_it_kept(edge: Edge) -> None:
    edge.start()
    told = send(edge, events(BATCH * EVERY))
    assert tell(edge, told)["accepted"] == len(told)
    edge.kill()
    log = edge.folder / "data" / "journal.db-wal"
    assert log.stat().st_size > 0, "what was told is nowhere else yet"
    with log.open("ab") as file:
        file.write(os.urandom(6000))  # the beginning of a commit that nobody was told of
    edge.start()
    assert journalled(edge) == dict(told)
    teach(edge, 1, seed=1)
    assert edge.stop() == 0


@pytest.mark.parametrize("page", [0, 1], ids=["the first page", "all other pages"])
def test_a_journal_of_garbage_is_an_error_that_names_it(edge: Edge, page: int) -> None:
    edge.start()
    teach(edge, 1, seed=0)
    assert edge.stop() == 0
    path = edge.folder / "data" / "journal.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")  # nothing is left in the log that would heal it
    content = bytearray(path.read_bytes())
    where = slice(0, 4096) if page == 0 else slice(4096, None)
    content[where] = os.urandom(len(content[where]))
    path.write_bytes(content)
    command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(edge.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "journal.db" in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == content, "nobody starts a new journal in its place"


def test_a_clock_that_jumps_ends_nobodys_wait(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge", feedback={"window": 0.1})
    wall, ticks = [1_700_000_000.0], [0.0]
    config = load(edge.path)
    inputs = {"user": np.array([1]), "item": np.array([1]), "x": np.zeros((1, 2), np.float32)}

    async def run(jump: float) -> None:
        service = Service(config, edge.folder, lambda j: steady(lambda: wall[0], lambda: ticks[0], j.latest()))
        Learning(config, edge.folder)  # hands parameters over
        await service.predict(inputs)
        ticks[0] += 1.0  # longer than anybody waits
        (waiting,), _ = await service.predict(inputs)
        wall[0] += jump
        before = service.journal.expired()
        tidying = asyncio.create_task(service.tidy())
        while service.journal.expired() == before:
            await asyncio.sleep(0.01)
        assert (await service.feedback([waiting], [1.0]))["accepted"] == 1
        tidying.cancel()
        service.close()

    for jump in (86_400.0, -86_400.0, -86_400.0, 86_400.0):  # and each time it starts anew, at what the clock says now
        asyncio.run(asyncio.wait_for(run(jump), 60))


def test_to_stop_amid_work_loses_nothing(edge: Edge) -> None:
    edge.start()
    acknowledged: dict[int, float] = {}
    busy = threading.Event()

    def call(seed: int) -> None:
        with contextlib.suppress(OSError):
            for number in itertools.count():
                told = send(edge, events(20, 1000 * seed + number))
                if tell(edge, told).get("accepted") == len(told):
                    acknowledged.update(told)
                if number == 5:
                    busy.set()

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    assert busy.wait(60)
    assert edge.stop() == 0
    for caller in callers:
        caller.join(60)
    assert acknowledged.items() <= journalled(edge).items()
