"""A learner among others: gossip, pulls and aggregations of one edge, on the event loop of its learning process.

Everything that touches the learner runs in one thread, one thing after the other; the event loop only talks. So a peer
that asks for the model while this edge learns gets the last publication, never something in between.
"""

import asyncio
import contextlib
import datetime as dt
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, final

from alphaedge.edge.certs import Identity, Pair, load_certificate
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.exchange import Pull, Request
from alphaedge.edge.gossip import Digest, Directory, News
from alphaedge.edge.learning import NAP, Learning
from alphaedge.edge.peers import Credentials, Forbidden, PeerClient, PeerError, PeerServer
from alphaedge.edge.policy import Member, Policy
from alphaedge.edge.records import About, Record, sign, verify
from alphaedge.edge.wire import Refused, pack_request
from alphaedge.errors import InvalidValue

T = TypeVar("T")
ROUND: Final = 1.0  # seconds between two rounds of gossip
PATIENCE: Final = 10.0  # seconds in which a new edge waits for a peer to start from


@final
class Network:
    """One edge's links to the others."""

    def __init__(self, config: EdgeConfig, folder: Path, learning: Learning) -> None:
        self.config, self.learning = config, learning
        peers = config.peers
        assert peers.certificate is not None
        assert peers.key is not None
        assert peers.authority is not None
        certificate, key, authority = (folder / f for f in (peers.certificate, peers.key, peers.authority))
        self._pair = Pair.load(certificate.read_bytes(), key.read_bytes())
        self._authority = load_certificate(authority.read_bytes())
        credentials = Credentials(str(certificate), str(key), str(authority), _now)
        self._server, self.client = PeerServer(self, credentials), PeerClient(credentials, time.monotonic)
        self.directory = Directory(config.edge, self._believed, peers.seeds)
        self.refused: dict[str, int] = {}  # models, by peer
        self._me = Member(config.edge, config.region)
        self._policy_file = folder / config.policy if config.policy else None
        self._policy, self._policy_stamp = Policy(), 0
        self._address = peers.address or ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._rng = random.Random()  # whom to gossip with; nothing that is learned depends on it

    def _believed(self, record: Record) -> About:
        return verify(record, self._authority, _now())

    async def run(self, stop: asyncio.Event) -> None:
        """Talk and learn until told to stop."""
        port = await self._server.start(self.config.peers.host, self.config.peers.port)
        self._address = self.config.peers.address or f"{self.config.peers.host}:{port}"
        sys.stdout.write(f"{self.config.edge} talks to its peers on https://{self._address}\n")
        sys.stdout.flush()
        self._read_policy()
        self._speak()
        gossiping = asyncio.create_task(self._gossip_for_ever())
        try:
            if self.learning.untaught:
                await self._bootstrap(stop)
            while not stop.is_set():
                if self.learning.due:
                    await self._aggregate()
                elif not await self._learner(self.learning.step):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), NAP)
        finally:
            gossiping.cancel()
            await self.client.close()
            await self._server.stop()
            self._thread.shutdown(wait=True)

    async def _learner(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _speak(self, *, gone: bool = False) -> None:
        """Tell the fleet how things stand here."""
        learner = self.learning.learner
        about = About(
            edge=self.config.edge,
            region=self.config.region,
            address=self._address,
            schema=self.learning.schema,
            version=time.time_ns() // 1_000_000,
            publication=learner.publication.number,
            shares=learner.topology,
            gone=gone,
        )
        self.directory.speak(sign(about, self._pair), time.time())

    def sources(self) -> dict[str, About]:
        """The edges that this one may fetch from now: there, of the same schema, and allowed."""
        others = self.directory.alive(time.time())
        return {
            edge: about
            for edge, about in others.items()
            if edge != self.config.edge
            and about.schema == self.learning.schema
            and self._policy.allows(Member(edge, about.region), self._me)
        }

    async def _bootstrap(self, stop: asyncio.Event) -> None:
        """Start from a peer's model, if one is heard of soon; the first edge of a fleet starts from nothing."""
        if not self.config.peers.seeds:
            return
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not stop.is_set():
            taught = {edge: about for edge, about in self.sources().items() if about.publication > 0}
            for edge in self._rng.sample(sorted(taught), len(taught)):
                pull = await self._pull(edge, taught[edge].address, self.learning.first_request)
                if pull is not None:
                    await self._learner(lambda: self.learning.bootstrap(pull))  # noqa: B023
                    return
            await asyncio.sleep(ROUND / 4)

    async def _aggregate(self) -> None:
        await self._learner(self.learning.publish)
        sources = self.sources()
        learner = self.learning.learner
        if not learner.links.neighbours and sources:
            learner.join([*sources, self.config.edge])
        self._speak()
        ready = [j for j in learner.links.neighbours if j in sources and sources[j].publication > 0]
        found = await asyncio.gather(
            *(self._pull(j, sources[j].address, partial(self.learning.request, j)) for j in ready)
        )
        pulls = {j: pull for j, pull in zip(ready, found, strict=True) if pull is not None}
        candidates, topology = [*sources, self.config.edge], self.directory.topology(time.time())
        await self._learner(lambda: self.learning.aggregate(pulls, candidates, topology))

    async def _pull(self, peer: str, address: str, wish: Callable[[], Request]) -> Pull | None:
        """What is wished for of an edge's model, if it comes in time and can be believed."""
        if self.client.resting(address):
            return None
        request = await self._learner(wish)
        try:
            data = await self.client.pull(address, peer, pack_request(request, self.learning.schema))
            return await self._learner(lambda: self.learning.expected(request).check(data))
        except PeerError as error:
            sys.stderr.write(f"no model from {peer}: {error}\n")
        except Refused as error:
            self.refused[peer] = self.refused.get(peer, 0) + 1
            sys.stderr.write(f"the model of {peer} is refused: {error}\n")
        return None

    async def _gossip_for_ever(self) -> None:
        while True:
            self._read_policy()
            await self._part_with_the_forbidden()
            now = time.time()
            self.directory.beat(now)
            self.directory.forget(now)
            for address in self.directory.next(self._rng, now):
                if self.client.resting(address):
                    continue
                with contextlib.suppress(PeerError):
                    news = await self.client.gossip(address, self.directory.digest())
                    self.directory.merge(news, time.time())
                    owed = self.directory.owed(news.digest)
                    if owed:
                        await self.client.news(address, News(owed, self.directory.digest()))
            await asyncio.sleep(ROUND)

    async def _part_with_the_forbidden(self) -> None:
        """Drop neighbours that a rule forbids, at once."""
        regions = {edge: about.region for edge, about in self.directory.alive(time.time()).items()}
        forbidden = [
            j
            for j in self.learning.learner.links.neighbours
            if j in regions and not self._policy.allows(Member(j, regions[j]), self._me)
        ]
        if forbidden:
            await self._learner(lambda: self.learning.part_with(forbidden))
            self._speak()

    def _read_policy(self) -> None:
        """Take up the policy file if it has changed; one that can't be read leaves the rules as they are."""
        if self._policy_file is None:
            return
        stamp = self._policy_file.stat().st_mtime_ns
        if stamp == self._policy_stamp:
            return
        self._policy_stamp = stamp
        try:
            self._policy = Policy.parse(self._policy_file.read_text())
        except InvalidValue as error:
            sys.stderr.write(f"the policy stays as it was: {error}\n")

    async def gossip(self, sender: Identity, digest: Digest) -> News:
        """See ``peers.Answers``."""
        return self.directory.answer(digest, time.time())

    async def news(self, sender: Identity, news: News) -> None:
        """See ``peers.Answers``."""
        self.directory.merge(news, time.time())

    async def pull(self, sender: Identity, request: bytes) -> bytes:
        """See ``peers.Answers``."""
        rule = self._policy.refusal(self._me, Member(sender.edge, sender.region))
        if rule is not None:
            raise Forbidden(rule)
        return await self._learner(lambda: self.learning.answer(request))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
