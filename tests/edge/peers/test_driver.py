"""The driver in its process: what runs in which thread, and how it ends."""

import asyncio
import datetime as dt
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.commands import FinishRound, Pull
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.peers.pulls import Pulls
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement, decode_announcement
from alphaedge.edge.trust.credentials import InsecureCredentials
from alphaedge.edge.trust.policy_file import PolicyFile
from alphaedge.edge.trust.wire_secrets import WireSecrets
from alphaedge.monitoring.vitals import MAX_LINKS

from ..processes import BATCH, CONFIG, EVERY, Edge, events


class Directory:
    """A directory that knows one other edge, at an address where nobody answers."""

    def __init__(self, schema: str) -> None:
        self.peer = Announcement(
            edge="boston", region="US", address="127.0.0.1:1", schema=schema, version=1, publication=3
        )
        self.announced = 0

    async def start(self) -> None: ...

    async def announce(self, signed: SignedAnnouncement) -> None:
        self.announced += 1

    def alive(self) -> Mapping[str, Announcement]:
        return {"boston": self.peer}

    def refusals(self) -> Mapping[str, int]:
        return {}

    def skews(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None: ...


def learning(folder: Path, batches: int, **changes: Any) -> LearningLoop:
    """A learner with feedback for so many batches in its journal. changes: to its configuration."""
    edge = Edge(folder, **changes)
    config = load(edge.path)
    features = Features(config.model.fields, b"secret")
    journal = Journal(folder / "data" / "journal.db", layout=features.layout)
    some = events(batches * BATCH)
    inputs = {
        "user": np.array([e[0].encode() for e in some], dtype=object),
        "item": np.array([e[1] for e in some]),
        "x": np.array([e[2] for e in some], dtype=np.float32),
    }
    now = dt.datetime.now(dt.UTC).timestamp()
    ids = journal.record_predictions(features.to_bytes(features.encode(inputs)), [0.5] * len(some), now)
    journal.record_feedback([(i, e[3]) for i, e in zip(ids, some, strict=True)], now)
    journal.close()
    return LearningLoop(config, folder)


def driver(loop: LearningLoop) -> PeerDriver:
    credentials = InsecureCredentials("berlin", "DE")
    return PeerDriver(
        loop.config,
        loop,
        address="127.0.0.1:2",
        directory=Directory(loop.schema),
        client=PeerClient(credentials, asyncio.get_running_loop().time),
        policy=PolicyFile(None),
        credentials=credentials,
        secrets=WireSecrets(b""),
    )


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():  # the test's own time limit ends it
        await asyncio.sleep(0.01)


def test_everything_that_moves_the_learner_runs_in_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = learning(tmp_path, EVERY)
    threads: dict[str, set[str]] = {}
    for name in ("join", "start_round", "mix", "finish_round", "learn"):
        method = getattr(loop.learner, name)

        def noted(*args: object, name: str = name, method: object = method) -> object:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            assert callable(method)
            return method(*args)

        monkeypatch.setattr(loop.learner, name, noted)

    async def one_round() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(driver(loop).run(stop))
        await until(lambda: loop.learner.aggregations == 1)
        stop.set()
        await running

    asyncio.run(one_round())
    assert threads.keys() >= {"join", "start_round", "mix", "finish_round"}
    assert all(name.startswith("learner") for names in threads.values() for name in names), threads
    assert loop.learner.links.neighbours == ["boston"], "a silent peer stays a neighbour"


def test_a_peer_that_is_dropped_after_a_mix_is_reported_with_its_share_of_that_mix(tmp_path: Path) -> None:
    """Otherwise the share of a harmful model could not be seen when the edge lets the peer go at once."""
    loop = learning(tmp_path, 1)

    async def reported() -> None:
        peers = driver(loop)
        peers.peers["boston"] = PeerStatus(alive=True, share=0.3)
        loop.status.written = 0.0
        peers.report()

    asyncio.run(reported())
    assert "boston" not in loop.learner.links.neighbours
    assert loop.status.peers["boston"].share == 0.3


def test_an_edge_with_very_many_neighbours_announces_what_others_accept(tmp_path: Path) -> None:
    loop = learning(tmp_path, 1)
    loop.learner.links.neighbours = [f"edge-{number}" for number in range(1500)]

    async def announced() -> Announcement:
        running = driver(loop)
        return decode_announcement(running._credentials.sign(running._announcement()))

    assert len(asyncio.run(announced()).vitals.neighbours) == MAX_LINKS


def test_the_key_list_of_a_former_neighbour_is_freed(tmp_path: Path) -> None:
    loop = learning(tmp_path / "berlin", 1)
    theirs = learning(tmp_path / "boston", EVERY, edge="boston")
    while theirs.step_alone():
        pass
    answering = Pulls(theirs.learner, loop.schema, WireSecrets(b""))

    async def run() -> None:
        running = driver(loop)
        pulls, links = running._pulls, loop.learner.links
        loop.learner.join(["berlin", "boston"])
        pending = pulls.request_model("boston")
        answer = answering.answer_model("berlin", *answering.read_request("berlin", pending.data))
        pulls.accept("boston", pending, answer)
        assert list(pulls._sent) == ["boston"]
        links.switch([], loop.learner.method.aggregation.memory)
        await running._finish_round(FinishRound({}, [], ["berlin"], {}))
        assert not pulls._sent
        pulls.accept("boston", pending, answer)
        assert not pulls._sent, "an answer that comes when the peer is a neighbour no more"
        running._thread.shutdown()
        running._unpacking.shutdown()

    asyncio.run(run())


def test_a_part_that_fails_ends_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = learning(tmp_path, 1)

    async def fail() -> None:
        raise RuntimeError("the policy folder is gone")

    async def run() -> None:
        running = driver(loop)
        monkeypatch.setattr(running, "_refresh", fail)
        await running.run(asyncio.Event())

    with pytest.raises(ExceptionGroup, match="unhandled"):
        asyncio.run(run())


def test_a_stop_during_a_round_does_not_wait_for_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = learning(tmp_path, EVERY, method=CONFIG["method"] | {"pull_ahead": 0})

    async def run() -> None:
        stop, asked = asyncio.Event(), asyncio.Event()
        running = driver(loop)

        async def never(*args: object, **kwargs: object) -> bytes:
            asked.set()
            await asyncio.Event().wait()
            return b""

        monkeypatch.setattr(running._client, "request", never)
        ending = asyncio.create_task(running.run(stop))
        await asked.wait()
        stop.set()
        await ending

    asyncio.run(run())
    assert loop.learner.aggregations == 0, "the round is begun again after a restart"


IMPOSSIBLE = b'{"dense":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}}'
ANSWERS = {"refused": b"garbage", "impossible": len(IMPOSSIBLE).to_bytes(8, "little") + IMPOSSIBLE}


@pytest.mark.parametrize("problem", [*ANSWERS, "no memory"])
def test_a_peer_whose_model_is_of_no_use_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    loop = learning(tmp_path, 1)

    async def run() -> None:
        running, sizes = driver(loop), []

        async def garbage(*args: object, max_bytes: int, **kwargs: object) -> bytes:
            sizes.append(max_bytes)
            if problem == "no memory":
                raise MemoryError
            return ANSWERS[problem]

        monkeypatch.setattr(running._client, "request", garbage)
        assert await running._pulled(Pull(1, "boston", "127.0.0.1:1", "start")) is None
        assert running._client.is_resting("127.0.0.1:1", "boston")
        dense = loop.learner.mixed.dense[0].nbytes
        assert dense < sizes[0] < dense + 20_000, "as large as what was asked for"
        running._thread.shutdown()
        running._unpacking.shutdown()

    asyncio.run(run())


def test_a_peer_that_has_lost_its_disk_is_refused_once_and_then_taken_as_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, theirs = learning(tmp_path / "berlin", 1), learning(tmp_path / "boston", EVERY, edge="boston")
    while theirs.step_alone():
        pass
    answering = Pulls(theirs.learner, loop.schema, WireSecrets(b""))

    async def run() -> None:
        running = driver(loop)
        assert isinstance(running.directory, Directory)
        loop.learner.join(["berlin", "boston"])
        link = loop.learner.links.known["boston"]
        link.publication, link.pulled_at, link.tried, link.excess = 57, 3, True, 0.04

        async def answer(address: str, route: str, body: bytes, **limits: Any) -> bytes:
            return answering.answer_model("berlin", *answering.read_request("berlin", body))

        async def pulled(published: int) -> PulledModel | None:
            """Pull while the peer announces so many publications."""
            running.directory.peer = msgspec.structs.replace(running.directory.peer, publication=published)
            return await running._pulled(Pull(1, "boston", "127.0.0.1:1", "round"))

        monkeypatch.setattr(running._client, "request", answer)
        assert await pulled(published=57) is None
        assert link.publication == 57, "an old model again, while the peer announces what is held"
        assert await pulled(published=1) is None
        assert (link.publication, link.tried, link.excess) == (-1, False, 0.04)
        model = await pulled(published=1)
        assert model is not None
        assert model.number == 1
        assert running.peers["boston"].refused == 2
        running._thread.shutdown()
        running._unpacking.shutdown()

    asyncio.run(run())


def test_rounds_count_as_missed_while_neighbours_have_new_models_and_none_comes(tmp_path: Path) -> None:
    """Only rounds of its own count: an edge without traffic misses none, however often its peers publish."""
    loop = learning(tmp_path, 2 * EVERY)

    async def two_rounds() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(driver(loop).run(stop))
        await until(lambda: loop.learner.aggregations == 2)
        stop.set()
        await running

    assert loop.vitals().missed_rounds == 0
    asyncio.run(two_rounds())
    assert loop.vitals().missed_rounds == 2
