"""Everything that leaves an edge with privacy on, field by field, with where it comes from.

A new field fails here until somebody says where it comes from. Allowed are: the released model, which has its noise;
what follows from the number of publications; the configuration; the clock; and keys that say who the edge is.
"""

import asyncio
import random
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from alphaedge.edge.directory.exchange import Delta, Digest, Exchange
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.peers import everything, wire
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.peers.pulls import Pulls
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import ServerStatus, write_status
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.revocations import SignedRevocations
from alphaedge.edge.trust.wire_secrets import WireSecrets
from alphaedge.monitoring.vitals import Vitals

from ..learning.private import released
from ..processes import CONFIG, EVERY
from .test_driver import driver, learning

CONFIGURATION, IDENTITY, CLOCK = "configuration", "identity of the edge", "clock"
RELEASED, COUNT = "released model", "number of publications or rounds"
NOTHING = "empty, or what it is for an edge without events"
OTHERS = "what other edges have said, signed by them"
HELD = "what a peer has published"

SOURCES: Final[dict[type, dict[str, str]]] = {
    Announcement: {
        "edge": CONFIGURATION,
        "region": CONFIGURATION,
        "address": CONFIGURATION,
        "schema": CONFIGURATION,
        "incarnation": COUNT,
        "version": COUNT,
        "publication": COUNT,
        "shares": NOTHING,
        "vitals": COUNT,
        "gone": CONFIGURATION,
    },
    Vitals: {
        "score": NOTHING,
        "recent": NOTHING,
        "gain": NOTHING,
        "recent_gain": NOTHING,
        "batches": NOTHING,
        "aggregations": COUNT,
        "missed_rounds": NOTHING,
        "requests": NOTHING,
        "p50": NOTHING,
        "p99": NOTHING,
        "pending": NOTHING,
        "own_share": NOTHING,
        "home_share": NOTHING,
        "neighbours": NOTHING,
        "links": NOTHING,
        "budget_spent": COUNT,
        "place": CONFIGURATION,
    },
    SignedAnnouncement: {"payload": "announcement", "signature": IDENTITY, "certificate": IDENTITY},
    Heartbeat: {"incarnation": COUNT, "count": CLOCK, "time": CLOCK, "signature": IDENTITY},
    Digest: {"versions": OTHERS, "revocations": OTHERS},
    Delta: {"announcements": OTHERS, "digest": OTHERS, "revocations": OTHERS},
    SignedRevocations: {"payload": OTHERS, "signature": OTHERS},
    everything._EverythingMessage: {"schema": CONFIGURATION, "holds": HELD, "most": CONFIGURATION},
    wire._RequestMessage: {
        "schema": CONFIGURATION,
        "holds": NOTHING,  # it is sent for a start alone, by an edge that holds nothing and names no keys
        "secret": CONFIGURATION,  # its name
        "base": NOTHING,
        "old": NOTHING,
        "fresh": NOTHING,
    },
    wire.AnswerHeader: {"schema": CONFIGURATION, "number": COUNT, "records": RELEASED},
}
TENSORS: Final = {"dense": RELEASED, "buffer": RELEASED, "rows": RELEASED, "keys": RELEASED, "places": RELEASED}
ROUTES: Final = {"pull": RELEASED, "rows": RELEASED, "tallies": RELEASED, "everything": RELEASED}
GOSSIP_ROUTES: Final = {"gossip": OTHERS, "delta": OTHERS}
METHOD = {**CONFIG["method"], "privacy": {"epsilon": 80.0, "tables": ["item"], "tally_batches": 1}}
SECRETS = WireSecrets(b"")


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.__name__)
def test_every_field_of_every_message_has_a_source(kind: type[msgspec.Struct]) -> None:
    assert set(kind.__struct_fields__) == set(SOURCES[kind])


@pytest.fixture
def loop(tmp_path: Path) -> LearningLoop:
    """An edge that has learned, been asked, chosen peers and dealt with them."""
    made = learning(tmp_path, 5 * EVERY, method=METHOD)
    while made.step_alone():
        pass
    made.learner.join(["berlin", "boston"])
    made.status.peers = {"boston": PeerStatus(alive=True, neighbour=True, pulls=3, share=0.4, failures=2)}
    made.status.own_share, made.status.missed_rounds = 0.6, 2
    write_status(ServerStatus(requests=1000, p50=1.0, p99=2.0, pending=7), tmp_path / "data" / "serving.json")
    made.report(made.status.peers, 1.0)
    return made


def inside(loop: LearningLoop, ask: Any) -> Any:
    async def run() -> Any:
        made = driver(loop)
        try:
            return ask(made)
        finally:
            made._thread.shutdown()
            made._unpacking.shutdown()

    return asyncio.run(run())


def test_an_announcement_tells_nothing_of_events(loop: LearningLoop) -> None:
    told: Announcement = inside(loop, PeerDriver._announcement)
    assert told.shares == {}
    assert told.publication == loop.learner.publication.number > 0
    fresh = Vitals()
    for name in Vitals.__struct_fields__:
        if SOURCES[Vitals][name] == NOTHING:
            assert getattr(told.vitals, name) == getattr(fresh, name), name
    assert told.vitals.aggregations == loop.learner.aggregations == 5
    seen = loop.vitals()
    changed = [name for name in Vitals.__struct_fields__ if getattr(seen, name) != getattr(fresh, name)]
    assert {"score", "batches", "requests", "p99", "pending", "own_share", "neighbours", "links"} <= set(changed)


def test_every_route_that_peers_can_ask_has_a_source(loop: LearningLoop) -> None:
    def gossip(made: PeerDriver) -> Gossip:
        exchange = Exchange(Membership("berlin", made._credentials, time.time))
        return Gossip(exchange, made._client, time.monotonic, random.Random(0))

    assert set(inside(loop, PeerDriver.routes)) == set(ROUTES)
    assert set(inside(loop, lambda made: gossip(made).routes())) == set(GOSSIP_ROUTES)


def test_every_tensor_of_an_answer_has_a_source(loop: LearningLoop) -> None:
    learner, pulls = loop.learner, Pulls(loop.learner, loop.schema, SECRETS)
    answers = [pulls.answer_everything("boston", everything.pack_request(loop.schema, 0, 100))]
    cipher = KeyCipher(SECRETS.newest_first[0], "boston", learner.name)
    data, _ = wire.pack_request(learner.request("boston"), loop.schema, None, cipher)
    answers.append(pulls.answer_model("boston", *pulls.read_request("boston", data)))
    answers.append(pulls.answer_rows("boston", *pulls.read_request("boston", data)))
    answers.append(pulls.answer_tallies("boston", *pulls.read_request("boston", data)))
    for answer in answers:
        about, tensors = wire.unpack_answer(answer)
        assert {name.partition(".")[0] for name in tensors} <= set(TENSORS)
        assert about.records == released(learner).records


def test_requests_name_no_id(loop: LearningLoop) -> None:
    pulls = Pulls(loop.learner, loop.schema, SECRETS)
    asked = msgspec.msgpack.decode(pulls.request_model("boston").data)
    assert asked == [loop.schema, -1, 2 * 500]
    start = msgspec.msgpack.decode(pulls.request_start("boston").data)
    asked = dict(zip(wire._RequestMessage.__struct_fields__, start, strict=True))
    holds, base, old, fresh = (asked[name] for name in ("holds", "base", "old", "fresh"))
    assert (holds, base) == (0, b"")
    assert len({bytes(keys) for keys in (*old, *fresh)}) == 1, "no keys of any table"
