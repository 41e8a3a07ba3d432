"""What edges may expect of their directory, whether it is gossip or a server."""

import asyncio
import contextlib
import functools
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.gossip import gossip as directory
from alphaedge.edge.store import status
from alphaedge.edge.trust.authority import Folder
from alphaedge.errors import InvalidValue

from .directories import (
    DOWN,
    NAMES,
    Fleet,
    GossipFleet,
    NatsFleet,
    about,
    agreed,
    changed,
    issue_all,
    run,
    today,
    trust,
    until,
    views,
)
from .nats_server import SERVER, NatsServer, for_fleet
from .processes import Edge, fleet_of, restored, teach, wait_for


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issue_all(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def server(certs: Path, tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats", for_fleet(certs / "ours", NAMES, tmp_path / "store")) as running:
        yield running


Test = Callable[[Fleet], Awaitable[None]]


@pytest.fixture(params=["gossip", "nats"])
def check(request: pytest.FixtureRequest, certs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Test], None]:
    """Runs a test with a fleet of each kind."""
    monkeypatch.setattr(directory, "ROUND", 0.1)
    kind: Callable[[], Fleet] = functools.partial(GossipFleet, certs)
    if request.param == "nats":
        kind = functools.partial(NatsFleet, certs, [request.getfixturevalue("server")])

    async def with_fleet(test: Test) -> None:
        fleet = kind()
        try:
            await test(fleet)
        finally:
            await fleet.close()

    return lambda test: run(with_fleet(test))


def test_everybody_finds_everybody_and_is_among_them(check: Callable[[Test], None]) -> None:
    async def test(fleet: Fleet) -> None:
        first = await fleet.join("berlin")
        assert set(first.alive()) == {"berlin"}, "at once"
        for edge in NAMES[1:]:
            await fleet.join(edge)
        await agreed(fleet, dict.fromkeys(NAMES, 1))
        assert not any(one.refused() for one in fleet.edges.values())

    check(test)


def test_a_new_record_takes_the_place_of_the_old_one_everywhere(check: Callable[[Test], None]) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in NAMES:
            await fleet.join(edge)
        await agreed(fleet, dict.fromkeys(NAMES, 1))
        await fleet.speak("bonn", 2, publication=7, shares={"berlin": 0.25})
        await agreed(fleet, {**dict.fromkeys(NAMES, 1), "bonn": 2})
        for one in fleet.edges.values():
            assert one.alive()["bonn"].shares == {"berlin": 0.25}
            assert one.alive()["bonn"].publication == 7

    check(test)


def test_one_that_crashes_is_missed_and_welcomed_back(check: Callable[[Test], None]) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        await agreed(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        await fleet.crash("bonn")
        began = time.monotonic()
        await agreed(fleet, {"berlin": 1, "north.shop.": 1})
        assert time.monotonic() - began < 3 * DOWN
        await fleet.join("bonn", version=2)
        await agreed(fleet, {"berlin": 1, "bonn": 2, "north.shop.": 1})

    check(test)


def test_one_that_leaves_is_gone_at_once(check: Callable[[Test], None]) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        await agreed(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        await fleet.speak("bonn", 2, gone=True)
        began = time.monotonic()
        await fleet.edges["bonn"].close()
        del fleet.edges["bonn"]
        await agreed(fleet, {"berlin": 1, "north.shop.": 1})
        assert time.monotonic() - began < DOWN, "before its silence could have been noticed"

    check(test)


LIES = {
    "a false signature": (changed, "a record of liar is not signed by it"),
    "another's name": (lambda c: trust(c, "liar").sign(about("bonn", 9)), "liar in DE claims to be bonn in DE"),
    "another region": (
        lambda c: trust(c, "liar").sign(about("liar", 9, region="US")),
        "liar in DE claims to be liar in US",
    ),
    "another fleet": (
        lambda c: trust(c, "liar", "theirs", "theirs").sign(about("liar", 9)),
        "a record's certificate is refused: the certificate was not issued by this fleet's authority",
    ),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_record_that_lies_is_refused_counted_and_named(check: Callable[[Test], None], certs: Path, lie: str) -> None:
    make, reason = LIES[lie]

    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        await fleet.whisper("liar", trust(certs, "liar").sign(about("liar", 1)))
        await until(lambda: "liar" in fleet.edges["berlin"].alive(), "the liar, while it tells the truth")
        await fleet.whisper("liar", make(certs))
        await until(lambda: bool(fleet.edges["berlin"].refused()), "the lie to arrive")
        assert fleet.edges["berlin"].refused() == {reason: 1}
        seen = views(fleet, ["berlin"])["berlin"]
        assert seen == {"berlin": 1, "bonn": 1, "liar": 1}, "what was believed before still counts"

    check(test)


def test_an_older_record_changes_nothing(check: Callable[[Test], None], certs: Path) -> None:
    async def test(fleet: Fleet) -> None:
        await fleet.join("berlin")
        await fleet.join("bonn", version=5)
        await agreed(fleet, {"berlin": 1, "bonn": 5})
        await fleet.whisper("bonn", trust(certs, "bonn").sign(about("bonn", 4)))
        await fleet.whisper("bonn", changed(certs))  # when this has arrived, the one before it has
        await until(lambda: bool(fleet.edges["berlin"].refused()), "the second")
        assert views(fleet) == {"berlin": {"berlin": 1, "bonn": 5}, "bonn": {"berlin": 1, "bonn": 5}}

    check(test)


def test_gossip_that_can_not_be_read_is_answered_with_400(certs: Path) -> None:
    async def test() -> None:
        fleet = GossipFleet(certs)
        await fleet.join("berlin")
        context = trust(certs, "liar").context(ssl.Purpose.SERVER_AUTH)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            for what in ("gossip", "news"):
                for garbage in (b"", b"\xc1", b"nonsense", msgspec.msgpack.encode({"a": 1})):
                    url = f"https://{fleet.ports['berlin'][0]}/peer/{what}"
                    async with session.post(url, data=garbage) as answer:
                        assert answer.status == 400
                        assert "it can't be read" in await answer.text()
        assert set(fleet.edges["berlin"].alive()) == {"berlin"}
        await fleet.close()

    run(test())


@pytest.mark.parametrize(
    "wrong",
    [
        {"servers": ()},
        {"servers": ("nats.example.com",)},
        {"servers": ("tls://a:1",), "bucket": "a.b"},
        {"servers": ("tls://a:1",), "down_after": 0.5},
    ],
)
def test_what_can_not_be_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=rf"peers\.nats\.{list(wrong)[-1]}: found"):
        NatsConfig(**wrong)


@pytest.mark.long
def test_edges_find_each_other_at_a_server_and_learn_from_each_other(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    names = [("berlin", "DE"), ("boston", "US"), ("beijing", "CN")]
    nats_ = {"servers": [server.url], "down_after": 2.0}
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        fleet = stack.enter_context(fleet_of(tmp_path, names, peers={"nats": nats_, "seeds": []}))
        Folder(tmp_path / "certs").issue(SERVER, "DE", ["127.0.0.1"], now=today(), days=50)
        server.write(for_fleet(tmp_path / "certs", [edge for edge, _ in names], tmp_path / "store"))
        server.start()
        wait_for(lambda: all(len(seen(edge)) == 2 for edge in fleet), "everybody to be seen")
        for round_ in range(2):
            for number, edge in enumerate(fleet):
                teach(edge, 2, seed=10 * round_ + number)
        learner = restored(fleet[0])
        assert set(learner.links.neighbours) == {"boston", "beijing"}
        assert {j for j, held in learner.held.items() if held.number > 0} == {"boston", "beijing"}
        fleet[2].kill()
        wait_for(lambda: seen(fleet[0]) == {"boston"}, "beijing to be missed")
        assert fleet[1].stop() == 0
        wait_for(lambda: seen(fleet[0]) == set(), "boston to have left")
        assert fleet[0].stop() == 0


def seen(edge: Edge) -> set[str]:
    """The others that an edge's learner sees now."""
    found = status.read(edge.folder / "data" / "status.json")
    return {peer for peer, one in found.peers.items() if one.alive} if found else set()


@pytest.mark.parametrize("steps", range(5))
def test_gossip_ends_though_news_come_at_the_same_moment(certs: Path, steps: int) -> None:
    """A cancellation must not get lost between two things that happen at once. steps: of the loop between them."""

    async def scenario() -> None:
        fleet = GossipFleet(certs)
        one = await fleet.join("berlin")
        await asyncio.sleep(2 * directory.PAUSE)  # it waits for news by now
        await one.speak(trust(certs, "berlin").sign(about("berlin", 2)))
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(5) as limit:
            await one.close()
        assert not limit.expired()
        await fleet.close()

    run(scenario())
