"""Gossip over real ports: messages that can't be decoded, and a close at an awkward moment."""

import asyncio
import ssl
import time
from pathlib import Path

import aiohttp
import msgspec
import pytest

from alphaedge.edge.directory.exchange import Delta, Digest
from alphaedge.edge.directory.gossip import MAX_DELTA_BYTES, Gossip
from alphaedge.edge.transport.client import PeerClient
from alphaedge.errors import PeerError

from ..directories import GossipFleet, announcement, our_credentials, run, until, until_all_see, views


@pytest.mark.parametrize(("endpoint", "kind"), [("gossip", "digest"), ("delta", "delta")])
def test_a_message_that_can_not_be_decoded_is_answered_with_400(certs: Path, endpoint: str, kind: str) -> None:
    async def test() -> None:
        fleet = GossipFleet(certs)
        await fleet.join("berlin")
        url = f"https://{fleet.ports['berlin'][0]}/peer/{endpoint}"
        context = our_credentials(certs, "liar").ssl_context(ssl.Purpose.SERVER_AUTH)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            for garbage in (b"", b"\xc1", b"nonsense", msgspec.msgpack.encode({"a": 1})):
                async with session.post(url, data=garbage) as answer:
                    assert answer.status == 400
                    assert f"not a {kind} in MessagePack" in await answer.text()
        assert set(fleet.edges["berlin"].alive()) == {"berlin"}
        await fleet.close()

    run(test())


def test_a_message_with_too_many_announcements_is_refused_before_they_are_decoded(certs: Path) -> None:
    async def test() -> None:
        fleet = GossipFleet(certs)
        await fleet.join("berlin")
        url = f"https://{fleet.ports['berlin'][0]}/peer/delta"
        context = our_credentials(certs, "liar").ssl_context(ssl.Purpose.SERVER_AUTH)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            nonsense = msgspec.msgpack.encode([["nonsense"] * 100, [{}]])
            async with session.post(url, data=nonsense) as answer:
                assert answer.status == 413
                assert "100 announcements; allowed: at most" in await answer.text()
            nonsense = msgspec.msgpack.encode([["nonsense" * 60_000], [{}]])
            async with session.post(url, data=nonsense) as answer:
                assert answer.status == 413
                assert "bytes of announcements; allowed: at most 300000" in await answer.text()
            async with session.post(url, data=bytes(MAX_DELTA_BYTES + 1)) as answer:
                assert answer.status == 413
        await fleet.close()

    run(test())


class WatchedEvent(asyncio.Event):
    """An event that knows whether a task waits for it."""

    waiting = False

    async def wait(self) -> bool:
        self.waiting = True
        return await super().wait()


@pytest.mark.parametrize("steps", range(5))
def test_gossip_ends_though_an_announcement_comes_at_the_same_moment(certs: Path, steps: int) -> None:
    """A cancellation must not get lost between two things that happen at once. steps: of the loop between them."""

    async def test() -> None:
        fleet = GossipFleet(certs)
        directory = await fleet.join("berlin")
        assert isinstance(directory, Gossip)
        directory._announced = watched = WatchedEvent()
        await until(lambda: watched.waiting, "gossip to wait for an announcement")
        await directory.announce(our_credentials(certs, "berlin").sign(announcement("berlin", 2)))
        for _ in range(steps):
            await asyncio.sleep(0)
        await directory.close()  # it would wait for ever
        await fleet.close()

    run(test())


def test_of_false_signatures_in_great_numbers_three_are_verified(certs: Path) -> None:
    """All refused, and who sends them is refused at the door from then on."""

    async def test() -> None:
        fleet = GossipFleet(certs)
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        signed = our_credentials(certs, "bonn").sign(announcement("bonn", 2))
        false = [
            msgspec.structs.replace(signed, payload=msgspec.msgpack.encode(announcement("bonn", v, incarnation=1)))
            for v in range(3, 38_003)
        ]
        client = PeerClient(our_credentials(certs, "liar"), time.monotonic)
        address = fleet.ports["berlin"][0]
        for count, status in ((38_000, 413), (3_000, 413), (60, 200), (60, 403), (1, 403)):
            body = msgspec.msgpack.encode(Delta(false[:count], Digest({})))
            request = client.request_within(60.0, address, "delta", body, max_bytes=0)
            if status == 200:
                assert await request == b""
            else:
                with pytest.raises(PeerError, match=f": {status}: "):
                    await request
        assert fleet.edges["berlin"].refusals() == {"an announcement of bonn has a wrong signature": 3}
        assert views(fleet, ["berlin"]) == {"berlin": {"berlin": 1, "bonn": 1}}
        await client.close()
        await fleet.close()

    run(test())
