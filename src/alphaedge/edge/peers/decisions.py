"""What an edge decides about its peers: events and the time in, commands out. No I/O, no threads, no clock.

The driver (``driver.py``) turns what happens into events, carries the commands out, and reports back. So every race is
a sequence of events that a test can write down: a pull that ends after its round, a policy that closes a link in the
middle of a pull, a stop while an edge looks for a model to start from.

An edge is in one of four phases. While it is ``starting`` it looks for peers' models to start from. Then it is
``learning``, and in a ``round`` whenever an aggregation is due. Once ``stopped`` it decides nothing any more.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, final

from torch import Tensor

from alphaedge.core.start import START_MODELS
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.commands import (
    AdoptRows,
    Announce,
    Command,
    DropPeers,
    FindNewIds,
    FinishRound,
    Log,
    Pull,
    Purpose,
    StartFrom,
    StartPulls,
    StartRound,
)
from alphaedge.edge.peers.events import (
    Event,
    NewIdsFound,
    Observed,
    PullEnded,
    PullsDue,
    PullsStarted,
    RoundDue,
    RoundFinished,
    RoundStarted,
    Started,
    Stopped,
)
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.policy import Member, Policy

Phase = Literal["starting", "learning", "round", "stopped"]

START_TIMEOUT_SECONDS: Final = 10.0  # for a new edge without feedback to find a peer to start from
SHORT_START_TIMEOUT_SECONDS: Final = 1.0  # with feedback to learn from, or once peers are known that have no model
ANNOUNCE_EVERY_SECONDS: Final = 2.0
ANNOUNCE_SECONDS_PER_EDGE: Final = 0.05  # in a large fleet announcements are rarer
COLD_START_EVERY_SECONDS: Final = 0.2
LATE_SECONDS: Final = 5.0  # an edge that catches up has many rounds a second: a younger pull is under way, not late


@final
@dataclass
class _Gathering:
    """Pulls that belong together: tickets of those under way, by ticket the peer, and what has come so far."""

    waiting: dict[int, str] = field(default_factory=dict)
    models: dict[str, PulledModel] = field(default_factory=dict)

    def keep(self, peers: Sequence[str]) -> None:
        """Forget pulls from other peers; those under way go on for nothing."""
        self.waiting = {ticket: peer for ticket, peer in self.waiting.items() if peer in peers}
        self.models = {peer: model for peer, model in self.models.items() if peer in peers}


@final
class PeerDecisions:
    """The decisions of one edge.

    schema: what peers must share to mix. cold_start: whether rows of new ids are asked for. pulls_ahead: whether models
    are pulled before the round; it then mixes those that have come, and waits for none. announces_mix: whether the
    edge publishes after the mix, so that there is something to announce after a round. rng: whom to start from.
    """

    def __init__(
        self,
        me: Member,
        schema: str,
        *,
        cold_start: bool,
        pulls_ahead: bool = False,
        announces_mix: bool = False,
        rng: random.Random,
    ) -> None:
        self._me, self._schema, self._rng = me, schema, rng
        self._cold_start, self._pulls_ahead, self._announces_mix = cold_start, pulls_ahead, announces_mix
        self.phase: Phase = "starting"
        self._seen = Observed({}, Policy(), ())
        self._schemas: dict[str, str] = {}  # of edges that had another schema when last seen
        self._ticket = 0
        self._now = 0.0
        self._pulled_at: dict[str, float] = {}  # by peer, the last pull for a round
        self._from_before: Sequence[str] | None = None  # the neighbours at the start, until a round
        self._began = self._announced = 0.0
        self._known_since = math.inf  # when peers were first heard of
        self._asked = 0.0  # when peers were last asked for models to start from
        self._pulls: dict[Purpose, _Gathering] = {
            "start": _Gathering(),
            "round": _Gathering(),
            "tallies": _Gathering(),
            "rows": _Gathering(),
        }
        self._expected: list[str] = []  # neighbours that have something to pull for the round to come
        self._looked_for_ids = 0.0
        self._looking_for_ids = False

    def handle(self, event: Event, now: float) -> list[Command]:
        """What to do about an event at a moment in seconds, of which only differences matter."""
        if self.phase == "stopped":
            return []
        self._now = now
        match event:
            case Started():
                self.phase = "starting" if event.wants_model else "learning"
                self._began = now
                return self._announce(now)
            case Observed():
                return self._observe(event, now)
            case PullsDue():
                return [StartPulls(self._candidates())] if self.phase == "learning" else []
            case PullsStarted():
                return self._pull_for_round(event)
            case RoundDue():
                if self.phase != "learning":
                    return []
                self.phase = "round"
                return [StartRound(self._candidates())]
            case RoundStarted():
                self._announced = -math.inf  # announce the publication soon; the round does not wait for that
                pulls = [] if self._pulls_ahead else self._pull_for_round(event)
                return pulls or [self._finish_round()]
            case RoundFinished():
                self.phase, self._from_before = "learning", ()
                self._pulls["round"].keep(event.neighbours)
                self._pulls["tallies"].keep(event.others)
                self._announced = -math.inf if self._announces_mix else self._announced
                return []
            case PullEnded():
                return self._end_pull(event)
            case NewIdsFound():
                return self._pull_rows(event.keys)
            case Stopped():
                self.phase = "stopped"
                return []

    def sources(self) -> dict[str, Announcement]:
        """The edges that this one may pull from: alive, of the same schema, and allowed by the policy."""
        return {
            edge: announcement
            for edge, announcement in self._seen.fleet.items()
            if edge != self._me.edge
            and announcement.schema == self._schema
            and self._seen.policy.allows(Member(edge, announcement.region), self._me)
        }

    def _candidates(self) -> list[str]:
        return sorted([*self.sources(), self._me.edge])

    def _announce(self, now: float) -> list[Command]:
        self._announced = now
        return [Announce()]

    def _observe(self, seen: Observed, now: float) -> list[Command]:
        self._seen = seen
        commands = [*self._note_schemas(), *self._drop_forbidden(now)]
        interval = max(ANNOUNCE_EVERY_SECONDS, ANNOUNCE_SECONDS_PER_EDGE * len(seen.fleet))
        if not 0 <= now - self._announced < interval:
            commands += self._announce(now)
        if self.phase == "starting":
            commands += self._find_start(now)
        return [*commands, *self._pull_at_start(), *self._find_new_ids(now)]

    def _find_new_ids(self, now: float) -> list[Command]:
        waits = self._looking_for_ids or now - self._looked_for_ids < COLD_START_EVERY_SECONDS
        if waits or not self._cold_start or not self._teachers():
            return []
        self._looked_for_ids, self._looking_for_ids = now, True
        return [FindNewIds()]

    def _note_schemas(self) -> list[Command]:
        """Say when an edge can't be mixed with, and when it can again."""
        commands: list[Command] = []
        for edge, announcement in self._seen.fleet.items():
            before, after = self._schemas.get(edge, self._schema), announcement.schema
            if edge != self._me.edge and after != before:
                event = "peer_schema_matches" if after == self._schema else "peer_schema_differs"
                commands.append(Log(event, {"peer": edge, "theirs": after, "ours": self._schema}))
                self._schemas[edge] = after
        return commands

    def _drop_forbidden(self, now: float) -> list[Command]:
        """Drop peers that the policy forbids, at once: what is pulled from them counts no more."""
        forbidden = [j for j in (*self._seen.neighbours, *self._seen.others) if self._is_forbidden(j)]
        if not forbidden:
            return []
        commands: list[Command] = [DropPeers(forbidden)]
        commands += [Log("link_closed_by_policy", {"peer": peer}) for peer in forbidden]
        cancelled = []
        for pulls in self._pulls.values():
            cancelled += [ticket for ticket, peer in pulls.waiting.items() if peer in forbidden]
            pulls.models = {peer: model for peer, model in pulls.models.items() if peer not in forbidden}
        for ticket in cancelled:
            commands += self._end_pull(PullEnded(ticket, None))
        return [*commands, *self._announce(now)]

    def _is_forbidden(self, peer: str) -> bool:
        """Whether the policy closes the link to a peer. A peer that is down is judged when it is back."""
        announcement = self._seen.fleet.get(peer)
        return announcement is not None and not self._seen.policy.allows(Member(peer, announcement.region), self._me)

    # -- a model to start from --

    def _find_start(self, now: float) -> list[Command]:
        pulls, sources = self._pulls["start"], self.sources()
        timeout = SHORT_START_TIMEOUT_SECONDS if self._seen.has_feedback else START_TIMEOUT_SECONDS
        if pulls.waiting:  # a slow peer does not hold the others' models up for long, nor the edge
            if now - self._asked >= (timeout if pulls.models else START_TIMEOUT_SECONDS):
                return self._start_from(pulls.models)
            return []
        self._known_since = min(self._known_since, now) if sources else math.inf
        if now - self._began >= timeout or now - self._known_since >= SHORT_START_TIMEOUT_SECONDS:
            self.phase = "learning"  # the first edge of a fleet starts from nothing
            return []
        ready = sorted(self._teachers())
        self._asked = now
        return [self._pull("start", peer) for peer in self._rng.sample(ready, min(START_MODELS, len(ready)))]

    def _end_start(self) -> list[Command]:
        """All asked are waited for: whoever is hostile would answer first."""
        pulls = self._pulls["start"]
        return self._start_from(pulls.models) if pulls.models and not pulls.waiting else []

    def _start_from(self, models: Mapping[str, PulledModel]) -> list[Command]:
        self.phase, self._pulls["start"] = "learning", _Gathering()
        models = {peer: model for peer, model in models.items() if not self._is_forbidden(peer)}
        if not models:
            return []
        publications = {peer: model.number for peer, model in models.items()}
        return [StartFrom(models), Log("started_from_peers", {"publications": publications})]

    # -- pulls --

    def _teachers(self) -> list[str]:
        """Sources that have published and are not resting: neighbours, or anybody as long as there are none."""
        sources = self.sources()
        near = [j for j in self._seen.neighbours if j in sources] or list(sources)
        return [j for j in near if sources[j].publication > 0 and j not in self._seen.resting]

    def _pull(self, purpose: Purpose, peer: str, keys: Sequence[Tensor] = ()) -> Pull:
        self._ticket += 1
        self._pulls[purpose].waiting[self._ticket] = peer
        return Pull(self._ticket, peer, self._seen.fleet[peer].address, purpose, keys)

    def _pull_for_round(self, peers: PullsStarted | RoundStarted) -> list[Command]:
        """Pull for a round. A pull that is still under way since the last round may yet bring a model for this one."""
        self._expected = self._with_publication(peers.neighbours)
        due = [j for j in self._expected if self._may_pull("round", j)]
        self._pulled_at |= dict.fromkeys(due, self._now)
        heard = [j for j in self._with_publication(peers.others) if self._may_pull("tallies", j)]
        return [*(self._pull("round", j) for j in due), *(self._pull("tallies", j) for j in heard)]

    def _with_publication(self, peers: Sequence[str]) -> list[str]:
        sources = self.sources()
        return [j for j in peers if j in sources and sources[j].publication > 0]

    def _may_pull(self, purpose: Purpose, peer: str) -> bool:
        return peer not in self._seen.resting and peer not in self._pulls[purpose].waiting.values()

    def _pull_at_start(self) -> list[Command]:
        """Pull from neighbours that an edge has from before, as soon as it hears of each.

        An edge that starts in the state of a simulation holds none of their models, and the moment to pull for its
        first round may have been before it started.
        """
        if self._from_before is None:
            self._from_before = self._seen.neighbours
        if self.phase != "learning" or not self._pulls_ahead or not self._from_before:
            return []
        teachers = self._teachers()
        near = [j for j in self._from_before if j not in self._pulled_at and j in teachers]
        self._pulled_at |= dict.fromkeys(near, self._now)
        return [self._pull("round", j) for j in near]

    def _pull_rows(self, keys: Sequence[Tensor]) -> list[Command]:
        teachers = self._teachers() if any(map(len, keys)) else []
        self._looking_for_ids = bool(teachers)
        self._pulls["rows"] = _Gathering()
        return [self._pull("rows", j, keys) for j in teachers]

    def _end_pull(self, event: PullEnded) -> list[Command]:
        for purpose, pulls in self._pulls.items():
            if event.ticket in pulls.waiting:
                peer = pulls.waiting.pop(event.ticket)
                model = None if self._is_forbidden(peer) else event.model
                if model is not None:
                    pulls.models[peer] = model
                return self._end_start() if purpose == "start" else self._end_gathering(purpose)
        return []  # it ended after its round, or its link was closed meanwhile

    def _end_gathering(self, purpose: Purpose) -> list[Command]:
        pulls = self._pulls[purpose]
        if pulls.waiting:
            return []
        if purpose in ("round", "tallies"):
            waits = self._pulls_ahead or self._pulls["round"].waiting or self._pulls["tallies"].waiting
            return [self._finish_round()] if self.phase == "round" and not waits else []
        self._looking_for_ids = False
        return [AdoptRows(dict(pulls.models))] if pulls.models else []

    def _is_under_way(self, peer: str) -> bool:
        """Whether a pull for a round has begun lately and may well bring a model yet."""
        waits = peer in self._pulls["round"].waiting.values()
        return waits and self._now - self._pulled_at[peer] < LATE_SECONDS

    def _finish_round(self) -> FinishRound:
        topology = {edge: announcement.shares for edge, announcement in self._seen.fleet.items()}
        models, self._pulls["round"].models = self._pulls["round"].models, {}
        tallies, self._pulls["tallies"].models = self._pulls["tallies"].models, {}
        absent, self._expected = [j for j in self._expected if j not in models and not self._is_under_way(j)], []
        return FinishRound(models, absent, self._candidates(), topology, tallies)
