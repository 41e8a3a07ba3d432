"""A learner among others: pulls and aggregations of one edge, on the event loop of its learning process.

Everything that touches the learner runs in one thread, one thing after the other; the event loop only talks. So a peer
that asks for the model while this edge learns gets the last publication, never something in between.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, final

from torch import Tensor

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.learning.exchange import PulledModel
from alphaedge.edge.learning.loop import NAP, LearningLoop
from alphaedge.edge.log import info, warn
from alphaedge.edge.peers.pulls import PendingPull, Pulls
from alphaedge.edge.store.status import PeerStatus
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import Handler
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.edge.trust.policy import Member
from alphaedge.edge.trust.policy_file import PolicyFile
from alphaedge.errors import AlphaEdgeError, ModelRefused, PeerError, PeerForbidden
from alphaedge.monitoring.vitals import EdgeView

T = TypeVar("T")
LOOK: Final = 1.0  # seconds between two looks at files that may change
PATIENCE: Final = 10.0  # seconds in which a new edge that has nothing to learn from waits for a peer to start from
ALONE: Final = 1.0  # ... in which one waits that has, or that has heard of others that have nothing to give
ADOPT_EVERY: Final = 0.2  # seconds between two looks for new ids
GONE: Final = 410


def waits(waited: float, known: float, *, behind: bool) -> bool:
    """Whether a new edge goes on waiting for a peer to start from. waited: seconds until now. known: those since it
    heard of others, which may know as little. behind: there are outcomes to learn from."""
    return waited < (ALONE if behind else PATIENCE) and known < ALONE


@final
class PeerDriver:
    """One edge's links to the others. address: where they reach it. policy: who may have whose model."""

    def __init__(
        self,
        config: EdgeConfig,
        learning: LearningLoop,
        *,
        address: str,
        directory: Directory,
        client: PeerClient,
        policy: PolicyFile,
        credentials: Credentials,
    ) -> None:
        self.config, self.learning, self.directory = config, learning, directory
        self._address, self._client, self._policy, self._credentials = address, client, policy, credentials
        self._me = Member(config.edge, config.region)
        self._pulls = Pulls(learning.learner, learning.schema, half=config.peers.half)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._rng = random.Random()  # whom to start from; nothing that is learned later depends on it
        self._foreign: dict[str, str] = {}  # edges of another schema
        self._told = 0.0  # when the fleet was last told how things stand here
        self.peers: dict[str, PeerStatus] = {}

    def handlers(self) -> dict[str, Handler]:
        """What other edges may ask for."""
        return {"pull": self._asked_for_model, "rows": self._asked_for_rows}

    async def run(self, stop: asyncio.Event) -> None:
        """Talk and learn until told to stop."""
        await self._speak()
        await self.directory.start()
        beside = [asyncio.create_task(self._look_for_ever())]
        if self.learning.learner.method.adopt_rows and self.learning.learner.tables:
            beside.append(asyncio.create_task(self._adopt_for_ever()))
        for task in beside:  # none of them ends by itself: without one of them this edge is not what it should be
            task.add_done_callback(lambda done: None if done.cancelled() else stop.set())
        try:
            if self.learning.untaught:
                await self._bootstrap(stop)
            while not stop.is_set():
                if self.learning.due:
                    await self._aggregate()
                elif not await self._learner(self.learning.step):
                    self.report()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(NAP):
                            await stop.wait()
            for task in beside:
                if task.done():
                    task.result()
        finally:
            for task in beside:
                task.cancel()
            await self.directory.close()
            self._thread.shutdown(wait=True)

    async def _learner(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _speak(self) -> None:
        """Tell the fleet how things stand here."""
        about = await self._learner(self._about)
        self._told = time.monotonic()
        await self.directory.announce(self._credentials.sign(about))

    def _about(self) -> Announcement:
        learner, status = self.learning.learner, self.learning.status
        status.version = max(status.version + 1, time.time_ns() // 1_000_000)  # it grows though the clock may not
        return Announcement(
            edge=self.config.edge,
            region=self.config.region,
            address=self._address,
            schema=self.learning.schema,
            version=status.version,
            publication=learner.publication.number,
            shares=learner.topology,
            vitals=self.learning.vitals(),
        )

    def sources(self) -> dict[str, Announcement]:
        """The edges that this one may fetch from now: there, of the same schema, and allowed."""
        others = {edge: about for edge, about in self.directory.alive().items() if edge != self.config.edge}
        self._note_schemas(others)
        return {
            edge: about
            for edge, about in others.items()
            if about.schema == self.learning.schema and self._policy.rules.allows(Member(edge, about.region), self._me)
        }

    def _note_schemas(self, others: Mapping[str, Announcement]) -> None:
        """Say when an edge can't be mixed with, and when it can again."""
        for edge, about in others.items():
            before, now = self._foreign.get(edge, self.learning.schema), about.schema
            if now != before:
                meets = now == self.learning.schema
                event = "an edge has the same schema again" if meets else "an edge has another schema: no mixing"
                info(event, peer=edge, theirs=now, ours=self.learning.schema)
                self._foreign[edge] = now

    async def _bootstrap(self, stop: asyncio.Event) -> None:
        """Start from a peer's model, if one is heard of soon; the first edge of a fleet starts from nothing.

        Who has outcomes to learn from does not wait long: what others know comes with the first mix as well.
        """
        if not self.config.peers.seeds and self.config.peers.nats is None:
            return
        began = heard = time.monotonic()
        sources: dict[str, Announcement] = {}
        while not stop.is_set():
            now, behind = time.monotonic(), await self._learner(lambda: self.learning.behind)
            heard = heard if sources else now
            if not waits(now - began, now - heard, behind=behind):
                return
            sources = self.sources()
            taught = {edge: about for edge, about in sources.items() if about.publication > 0}
            for edge in self._rng.sample(sorted(taught), len(taught)):
                pull = await self._pull(edge, taught[edge].address, lambda _: self._pulls.ask_for_a_start())
                if pull is not None:
                    await self._learner(lambda: self.learning.bootstrap(pull))  # noqa: B023
                    info("started from a peer's model", peer=edge, publication=pull.number)
                    return
            await asyncio.sleep(LOOK / 4)

    async def _aggregate(self) -> None:
        began = time.monotonic()
        await self._learner(self.learning.start_round)
        sources = self.sources()
        learner = self.learning.learner
        if not learner.links.neighbours and sources:
            learner.join(sorted([*sources, self.config.edge]))
        await self._speak()
        ready = [j for j in learner.links.neighbours if j in sources and sources[j].publication > 0]
        found = await asyncio.gather(*(self._pull_neighbour(j, sources[j].address) for j in ready))
        pulls = {j: pull for j, pull in zip(ready, found, strict=True) if pull is not None}
        candidates, topology = (
            sorted([*sources, self.config.edge]),
            {e: a.shares for e, a in self.directory.alive().items()},
        )
        shares = await self._learner(lambda: self.learning.finish_round(pulls, candidates, topology))
        self.learning.status.aggregations_timed += 1
        self.learning.status.aggregation_seconds += time.monotonic() - began
        for peer, status in self.peers.items():
            status.share = shares.get(peer, 0.0)
        info("aggregated", number=learner.aggregations, shares={e: round(s, 4) for e, s in shares.items()})
        self.report()

    async def _pull_neighbour(self, peer: str, address: str) -> PulledModel | None:
        return await self._pull(peer, address, lambda anew: self._pulls.ask(peer, anew=anew))

    async def _pull(
        self, peer: str, address: str, ask: Callable[[bool], PendingPull], what: str = "pull"
    ) -> PulledModel | None:
        """What is wished for of an edge's model, if it comes in time and can be believed."""
        if self._client.is_resting(address, peer):
            return None
        status = self.peers.setdefault(peer, PeerStatus())
        try:
            asked, data = await self._answered(peer, address, ask, what)
            pull = await self._learner(lambda: self._pulls.believe(peer, asked, data))
        except ModelRefused as error:
            status.refused += 1
            warn("a peer's model is refused", peer=peer, reason=error)
        except AlphaEdgeError as error:
            status.failures += 1
            warn("no model from a peer", peer=peer, reason=error)
        else:
            if what == "pull":
                status.pulls, status.held, status.pulled = status.pulls + 1, pull.number, time.time()
            return pull
        return None

    async def _answered(
        self, peer: str, address: str, ask: Callable[[bool], PendingPull], what: str
    ) -> tuple[PendingPull, bytes]:
        asked = await self._learner(lambda: ask(False))
        try:
            return asked, await self._client.request(address, what, asked.data, edge=peer)
        except PeerError as error:
            if error.status != GONE:
                raise
        asked = await self._learner(lambda: ask(True))  # it has started anew, and knows of no list of keys
        return asked, await self._client.request(address, what, asked.data, edge=peer)

    async def _asked_for_model(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        return await self._learner(lambda: self._pulls.answer(sender.edge, request))

    async def _asked_for_rows(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        return await self._learner(lambda: self._pulls.answer_rows(request))

    def _check_allowed(self, sender: Identity) -> None:
        rule = self._policy.rules.refusal(self._me, Member(sender.edge, sender.region))
        if rule is not None:
            raise PeerForbidden(rule)

    async def _adopt_for_ever(self) -> None:
        """Ask peers about ids that are new here, so that their first rows are better than none (cold start)."""
        while True:
            await asyncio.sleep(ADOPT_EVERY)
            sources, neighbours = self.sources(), self.learning.learner.links.neighbours
            asked = [j for j in neighbours if j in sources] or list(sources)  # before the first aggregation: anybody
            ready = [
                j for j in asked if sources[j].publication > 0 and not self._client.is_resting(sources[j].address, j)
            ]
            keys = await self._learner(lambda: self.learning.strangers(time.monotonic())) if ready else []
            if not keys:
                continue
            found = await asyncio.gather(*(self._pull_rows(j, sources[j].address, keys) for j in ready))
            pulls = {j: pull for j, pull in zip(ready, found, strict=True) if pull is not None}
            if pulls:
                await self._learner(lambda: self.learning.adopt(pulls))  # noqa: B023

    async def _pull_rows(self, peer: str, address: str, keys: list[Tensor]) -> PulledModel | None:
        return await self._pull(peer, address, lambda _: self._pulls.ask_for_rows(keys), "rows")

    async def _look_for_ever(self) -> None:
        """Take up new rules and renewed certificates, and part with neighbours that a rule forbids, at once."""
        while True:
            self._policy.refresh()
            try:
                if self._credentials.refresh():
                    info("the certificate was renewed")
                    await self._speak()
            except (AlphaEdgeError, OSError) as error:  # half written, info: look again
                warn("the certificate stays as it was", reason=error)
            await self._part_with_the_forbidden()
            if due(self._told, time.monotonic(), len(self.directory.alive())):
                await self._speak()
            await asyncio.sleep(LOOK)

    async def _part_with_the_forbidden(self) -> None:
        regions = {edge: about.region for edge, about in self.directory.alive().items()}
        forbidden = [
            j
            for j in self.learning.learner.links.neighbours
            if j in regions and not self._policy.rules.allows(Member(j, regions[j]), self._me)
        ]
        if forbidden:
            await self._learner(lambda: self._drop(forbidden))
            for peer in forbidden:
                info("a rule has closed a link", peer=peer)
            await self._speak()

    def _drop(self, peers: list[str]) -> None:
        self.learning.drop(peers)
        for peer in peers:
            self._pulls.part_with(peer)

    def report(self) -> None:
        """Write down how things stand, now and then."""
        if not self.learning.status_is_old(time.time()):
            return
        alive, neighbours = self.directory.alive(), self.learning.learner.links.neighbours
        for edge, about in alive.items():
            if edge != self.config.edge:
                one = self.peers.setdefault(edge, PeerStatus())
                one.region, one.publication = about.region, about.publication
                one.mixes = about.schema == self.learning.schema
        for edge, one in self.peers.items():
            one.alive, one.neighbour = edge in alive, edge in neighbours
            if not one.neighbour:
                one.share = 0.0
            count = self._pulls.bytes.get(edge)
            if count is not None:
                one.request_bytes, one.dense_bytes, one.row_bytes = count.request, count.dense, count.rows
        self.learning.status.records_refused = sum(self.directory.refusals().values())
        others = {
            edge: EdgeView(region=a.region, alive=True, mixes=a.schema == self.learning.schema, vitals=a.vitals)
            for edge, a in alive.items()
        }
        self.learning.report(self.peers, time.time(), others)


def due(last: float, now: float, edges: int) -> bool:
    """Whether an edge should tell the fleet again how it is doing: in a large one more seldom."""
    return not 0 <= now - last < max(TELL_EVERY, TELL_EACH * edges)


TELL_EVERY: Final = 2.0  # seconds


TELL_EACH: Final = 0.05  # seconds for each edge that listens
