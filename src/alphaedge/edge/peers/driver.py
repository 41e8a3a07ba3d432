"""Carries out what an edge decides about its peers (``decisions.py``), on the event loop of its learner process.

Everything that touches the learner runs in one thread, one thing after the other; the event loop only talks. So a peer
that pulls while this edge learns gets the last publication, never something in between.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, final

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.directory.clock_skew import own_skew
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.learning.loop import POLL_INTERVAL_SECONDS, LearningLoop
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.log import info, warn
from alphaedge.edge.peers import commands, events, everything
from alphaedge.edge.peers.decisions import PeerDecisions
from alphaedge.edge.peers.key_lists import KeyList
from alphaedge.edge.peers.pulls import PendingPull, Pulls
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import Route
from alphaedge.edge.trust.announcements import Announcement, fit_limits
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.edge.trust.policy import Member
from alphaedge.edge.trust.policy_file import PolicyFile
from alphaedge.edge.trust.wire_secrets import WireSecret, WireSecrets
from alphaedge.errors import AlphaEdgeError, ModelOutdated, ModelRefused, PeerError, PeerForbidden, RuleError
from alphaedge.monitoring.vitals import EdgeView

T = TypeVar("T")
OBSERVE_EVERY_SECONDS: Final = 0.2
REFRESH_EVERY_SECONDS: Final = 1.0  # for files that may change: policy, wire secrets, certificates
HTTP_GONE: Final = 410  # a peer has restarted and has no list of keys any more
HTTP_PRECONDITION_FAILED: Final = 412  # a peer does not have the wire secret


@final
class PeerDriver:
    """One edge among its peers.

    address: where they reach it. policy: who may pull whose model. secrets: under which keys travel.
    """

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
        secrets: WireSecrets,
    ) -> None:
        self.config, self.learning, self.directory = config, learning, directory
        self._address, self._client, self._policy, self._credentials = address, client, policy, credentials
        self._me = Member(config.edge, config.region)
        self._pulls = Pulls(learning.learner, learning.schema, secrets)
        method = learning.learner.method
        self._decisions = PeerDecisions(
            self._me,
            learning.schema,
            cold_start=method.asks_for_new_ids and bool(learning.learner.tables),
            pulls_ahead=method.pull_ahead > 0,
            announces_mix=method.publish == "mixed",
            rng=random.Random(),  # whom to start from; nothing that is learned later depends on it
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._unpacking = ThreadPoolExecutor(1, thread_name_prefix="requests")  # does not hold learning up
        self._events: asyncio.Queue[events.Event | None] = asyncio.Queue()  # None: there is an observation
        self._observation: events.Observed | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._round_began = self._refreshed = 0.0
        self._pulled_for = -1  # the round that pulls were last started for
        self.peers: dict[str, PeerStatus] = {}

    def routes(self) -> dict[str, Route]:
        """What peers may ask for."""
        size, work = self._pulls.max_request_bytes, self._pulls.work
        return {
            "pull": Route(self._answer_model, size, work),
            "rows": Route(self._answer_rows, size, work),
            "tallies": Route(self._answer_tallies, size, work),
            everything.ROUTE: Route(self._answer_everything, everything.MAX_REQUEST_BYTES, work),
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Learn and talk to peers until told to stop. If one part fails, all of it ends."""
        wants_model = self.learning.untaught and bool(self.config.peers.seeds or self.config.peers.nats)
        try:
            await self._handle(events.Started(wants_model))
            await self.directory.start()
            async with asyncio.TaskGroup() as tasks:
                self._group = tasks
                await self._handle(await self._observe())
                beside = [tasks.create_task(self._observe_forever()), tasks.create_task(self._wait_for(stop))]
                await self._work()
                for task in (*beside, *self._tasks):
                    task.cancel()
        finally:
            await self.directory.close()
            self._thread.shutdown(wait=True)
            self._unpacking.shutdown(wait=True)

    async def _work(self) -> None:
        """Handle events as they come; learn in between."""
        while self._decisions.phase != "stopped":
            if not self._events.empty() or self._decisions.phase != "learning":
                await self._handle(await self._events.get())
            elif self.learning.due:
                await self._handle(events.RoundDue())
            elif self.learning.past_pull and self._pulled_for != self.learning.learner.aggregations:
                self._pulled_for = self.learning.learner.aggregations
                await self._handle(events.PullsDue())
            elif not await self._in_learner(self.learning.step):
                await self._nap()

    async def _nap(self) -> None:
        """Wait a little for an event, and handle it."""
        try:
            async with asyncio.timeout(POLL_INTERVAL_SECONDS):
                event = await self._events.get()
        except TimeoutError:
            return
        await self._handle(event)

    async def _handle(self, event: events.Event | None) -> None:
        if event is None:
            event, self._observation = self._observation, None
        if event is None:
            return
        for command in self._decisions.handle(event, time.monotonic()):
            await self._do(command)

    async def _wait_for(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._events.put_nowait(events.Stopped())

    async def _in_learner(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- what is seen --

    async def _observe_forever(self) -> None:
        while True:
            await self._refresh()
            observation = await self._observe()
            if self._observation is None:  # only the newest counts: a busy learner does not work through old ones
                self._events.put_nowait(None)
            self._observation = observation
            self.report()
            await asyncio.sleep(OBSERVE_EVERY_SECONDS)

    async def _refresh(self) -> None:
        """Read the policy, the wire secrets and the certificates again if they have changed."""
        now = time.monotonic()
        if now - self._refreshed < REFRESH_EVERY_SECONDS:
            return
        self._refreshed = now
        self._policy.refresh()
        self._pulls.secrets.refresh()
        try:
            if self._credentials.refresh():
                await self._announce()
        except (AlphaEdgeError, OSError) as error:  # half written, say: it is read again soon
            warn("certificate_refused", reason=error)

    async def _observe(self) -> events.Observed:
        fleet = self.directory.alive()
        resting = {edge for edge, a in fleet.items() if self._client.is_resting(a.address, edge)}
        behind = self._decisions.phase == "starting" and await self._in_learner(lambda: self.learning.behind)
        links, rules = self.learning.learner.links, self._policy.rules
        neighbours, others = tuple(links.neighbours), tuple(links.others)
        return events.Observed(fleet, rules, neighbours, others, frozenset(resting), behind)

    # -- what is done --

    async def _do(self, command: commands.Command) -> None:
        match command:
            case commands.Announce():
                await self._announce()
            case commands.Pull():
                task = self._group.create_task(self._pull(command))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case commands.StartFrom():
                await self._in_learner(lambda: self.learning.bootstrap(list(command.models.values())))
            case commands.StartPulls():
                self._events.put_nowait(await self._in_learner(lambda: self._start_pulls(command)))
            case commands.StartRound():
                self._round_began = time.monotonic()
                self._events.put_nowait(await self._in_learner(lambda: self._start_round(command)))
            case commands.FinishRound():
                self._events.put_nowait(await self._finish_round(command))
            case commands.DropPeers():
                await self._in_learner(lambda: self._drop(command))
            case commands.FindNewIds():
                keys = await self._in_learner(lambda: self.learning.new_ids(time.monotonic()))
                self._events.put_nowait(events.NewIdsFound(keys))
            case commands.AdoptRows():
                await self._in_learner(lambda: self.learning.adopt(command.models))
            case commands.Log():
                info(command.event, **command.fields)

    def _start_round(self, command: commands.StartRound) -> events.RoundStarted:
        self.learning.start_round()
        return events.RoundStarted(*self._peers_of(command.candidates))

    def _start_pulls(self, command: commands.StartPulls) -> events.PullsStarted:
        return events.PullsStarted(*self._peers_of(command.candidates))

    def _peers_of(self, candidates: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The neighbours, and the others that are heard; the first ones are chosen here. Later, an edge whose peers are
        all excluded has none."""
        learner = self.learning.learner
        if not learner.links.known and len(candidates) > 1:
            try:
                learner.join(candidates)
            except RuleError as error:  # a rule of the operator's own: it is asked again for the next round
                warn("selection_rule_failed", reason=error)
        return tuple(learner.links.neighbours), tuple(learner.links.others)

    async def _finish_round(self, command: commands.FinishRound) -> events.RoundFinished:
        learner, status = self.learning.learner, self.learning.status
        shares = await self._in_learner(lambda: self._end_round(command))
        status.timed_aggregations += 1
        if command.models:
            status.missed_rounds = 0
        elif command.absent:
            status.missed_rounds += 1
        status.aggregation_seconds += time.monotonic() - self._round_began
        for name, peer in self.peers.items():
            peer.share = shares.get(name, 0.0)
        info("aggregated", number=learner.aggregations, shares={e: round(s, 4) for e, s in shares.items()})
        return events.RoundFinished(tuple(learner.links.neighbours), tuple(learner.links.others))

    def _end_round(self, command: commands.FinishRound) -> dict[str, float]:
        seen = command.candidates, command.topology, command.absent
        shares = self.learning.finish_round(command.models, *seen, command.tallies)
        self._pulls.drop_former_peers()
        return shares

    def _drop(self, command: commands.DropPeers) -> None:
        self.learning.drop(command.peers)
        self._pulls.drop_former_peers()

    async def _announce(self) -> None:
        announcement = await self._in_learner(self._announcement)
        await self.directory.announce(self._credentials.sign(announcement))

    def _announcement(self) -> Announcement:
        learner, status = self.learning.learner, self.learning.status
        status.announcement_version += 1
        whole = Announcement(
            edge=self.config.edge,
            region=self.config.region,
            address=self._address,
            schema=self.learning.schema,
            version=status.announcement_version,
            publication=learner.publication.number,
            shares=learner.topology,
            vitals=self.learning.announced_vitals(),
        )
        return fit_limits(whole)

    def _status_of(self, peer: str) -> PeerStatus:
        """What is known of a peer; at first its share is what the edge announced last, before it started."""
        if peer not in self.peers:
            self.peers[peer] = PeerStatus(share=self.learning.learner.topology.get(peer, 0.0))
        return self.peers[peer]

    # -- pulls --

    async def _pull(self, command: commands.Pull) -> None:
        self._events.put_nowait(events.PullEnded(command.ticket, await self._pulled(command)))

    async def _pulled(self, command: commands.Pull) -> PulledModel | None:
        """What was pulled, if it came in time and is accepted."""
        peer = command.peer
        status = self._status_of(peer)
        try:
            pending, answer = await self._ask(command)
            model = await self._in_learner(lambda: self._pulls.accept(peer, pending, answer))
        except ModelRefused as error:
            self._client.record_refusal(command.address, peer)
            status.refused += 1
            warn("peer_model_refused", peer=peer, reason=error)
            if isinstance(error, ModelOutdated):
                await self._note_new_start(peer)
        except MemoryError as error:
            self._client.record_refusal(command.address, peer)
            status.failures += 1
            warn("pull_failed", peer=peer, reason=repr(error))
        except AlphaEdgeError as error:
            status.failures += 1
            warn("pull_failed", peer=peer, reason=error)
        else:
            self._client.record_acceptance(command.address, peer)
            if command.purpose == "round":
                status.pulls, status.held, status.pulled = status.pulls + 1, model.number, time.time()
            return model
        return None

    async def _note_new_start(self, peer: str) -> None:
        """Take a peer as a new one if it announces fewer publications than are held: it has lost its disk.

        The announcement alone does not tell, since a model may come before the announcement of its publication.
        """
        announced = self.directory.alive().get(peer)
        if announced is None:
            return
        published, learner = announced.publication, self.learning.learner
        if await self._in_learner(lambda: learner.note_new_start(peer, published)):
            self._pulls.drop(peer)
            info("peer_began_anew", peer=peer, publication=published)

    async def _ask(self, command: commands.Pull) -> tuple[PendingPull, bytes]:
        spent, secrets, afresh = 0.0, list(self._pulls.secrets.newest_first), False

        async def ask() -> tuple[PendingPull, bytes]:
            nonlocal spent
            pending = await self._in_learner(lambda: self._request(command, secrets[0], afresh=afresh))
            size, peer, began = pending.max_bytes, command.peer, time.monotonic()
            try:
                return pending, await self._client.request(
                    command.address, pending.route, pending.data, max_bytes=size, edge=peer, spent=spent
                )
            finally:
                spent += time.monotonic() - began

        while True:
            try:
                return await ask()
            except PeerError as error:
                if error.status == HTTP_GONE and not afresh:
                    afresh = True
                elif error.status == HTTP_PRECONDITION_FAILED and len(secrets) > 1:
                    secrets.pop(0)
                else:
                    raise

    def _request(self, command: commands.Pull, secret: WireSecret, *, afresh: bool) -> PendingPull:
        match command.purpose:
            case "start":
                return self._pulls.request_start(command.peer)
            case "rows":
                return self._pulls.request_rows(command.peer, command.keys, secret)
            case "round":
                return self._pulls.request_model(command.peer, secret, afresh=afresh)
            case "tallies":
                return self._pulls.request_tallies(command.peer, secret, afresh=afresh)

    async def _answer_model(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        asked = await self._read_request(sender.edge, request)
        return await self._in_learner(lambda: self._pulls.answer_model(sender.edge, *asked))

    async def _answer_rows(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        asked = await self._read_request(sender.edge, request)
        return await self._in_learner(lambda: self._pulls.answer_rows(sender.edge, *asked))

    async def _answer_tallies(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        asked = await self._read_request(sender.edge, request)
        return await self._in_learner(lambda: self._pulls.answer_tallies(sender.edge, *asked))

    async def _answer_everything(self, sender: Identity, request: bytes) -> bytes:
        self._check_allowed(sender)
        return await self._in_learner(lambda: self._pulls.answer_everything(sender.edge, request))

    async def _read_request(self, peer: str, request: bytes) -> tuple[PullRequest, KeyList]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._unpacking, lambda: self._pulls.read_request(peer, request))

    def _check_allowed(self, sender: Identity) -> None:
        rule = self._policy.rules.refusal(self._me, Member(sender.edge, sender.region))
        if rule is not None:
            raise PeerForbidden(rule)

    # -- status --

    def report(self) -> None:
        """Write the status file, if the last one is old."""
        if not self.learning.status_is_old(time.time()):
            return
        alive, neighbours = self.directory.alive(), self.learning.learner.links.neighbours
        for edge, announcement in alive.items():
            if edge != self.config.edge:
                peer = self._status_of(edge)
                peer.region, peer.publication = announcement.region, announcement.publication
                peer.mixes = announcement.schema == self.learning.schema
        for edge, peer in self.peers.items():
            peer.alive, peer.neighbour = edge in alive, edge in neighbours
            peer.excluded = self.learning.exclusion(edge)
            count = self._pulls.bytes.get(edge)
            if count is not None:
                peer.request_bytes, peer.dense_bytes, peer.row_bytes = count.request, count.dense, count.rows
        self._report_identity()
        others = {
            edge: EdgeView(region=a.region, alive=True, same_schema=a.schema == self.learning.schema, vitals=a.vitals)
            for edge, a in alive.items()
        }
        self.learning.report(self.peers, time.time(), others)

    def _report_identity(self) -> None:
        status, skews = self.learning.status, self.directory.skews()
        status.announcements_refused = sum(self.directory.refusals().values())
        status.incarnation = self._credentials.incarnation.number
        status.certificate_days = self._credentials.days_left()
        status.revocations = self._credentials.revocations.number
        status.clock_skew = own_skew(skews)
        for edge, peer in self.peers.items():
            peer.clock_skew = skews.get(edge, 0.0)
