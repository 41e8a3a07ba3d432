"""Gossip over real ports: messages that can't be decoded, and a close at an awkward moment."""

import asyncio
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest

from alphaedge.edge.directory.gossip import Gossip

from ..directories import GossipFleet, announcement, our_credentials, run, until


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
