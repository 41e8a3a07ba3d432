"""Both ends of a pull: the requests of an edge, whether it accepts the answers, and its own answers to peers."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers import everything
from alphaedge.edge.peers.answer_check import ExpectedAnswer
from alphaedge.edge.peers.key_lists import KeyList, ReceivedLists, max_keys
from alphaedge.edge.peers.wire import (
    max_answer_bytes,
    max_request_bytes,
    pack_pull,
    pack_request,
    pack_tallies,
    unpack_request,
)
from alphaedge.edge.peers.wire_keys import KeyCipher, cipher_named
from alphaedge.edge.trust.wire_secrets import WireSecret, WireSecrets
from alphaedge.errors import InvalidValue, ModelRefused, PeerError

KEPT_LISTS: Final = ("pull", "tallies")  # routes whose key lists are kept on both ends


@final
@dataclass(frozen=True)
class PendingPull:
    """A request under way, and what its answer must look like."""

    data: bytes
    expected: ExpectedAnswer
    route: str = "pull"

    @property
    def max_bytes(self) -> int:
        """The largest answer to it."""
        ask = self.expected
        if ask.listed is None:
            told = [max(n, rows.shape[1] + COLUMNS) for n, rows in zip(ask.told, ask.rows, strict=True)]
            return everything.max_answer_bytes(ask.dense, ask.statistics, ask.rows, ask.most, told)
        parts = ask.dense, ask.statistics, ask.rows, ask.listed
        return max_answer_bytes(*parts, tallies=True, rows_only=ask.rows_only)


@final
@dataclass
class LinkBytes:
    """Bytes of the pulls over one link, by kind."""

    request: int = 0
    dense: int = 0  # answers without their rows
    rows: int = 0


@final
class Pulls:
    """One edge's pulls. schema: what peers must share. secrets: under which keys travel.

    Key lists are not part of the learner's state: after a restart all keys are sent again.
    """

    def __init__(self, learner: Learner, schema: str, secrets: WireSecrets) -> None:
        self.learner, self.schema, self.secrets = learner, schema, secrets
        self._sent: dict[str, KeyList] = {}
        self._received = ReceivedLists()
        self._work: dict[str, float] = {}
        self._max_keys = max_keys(table.numbering.capacity for table in learner.tables)
        self.max_request_bytes = max_request_bytes(self._max_keys)
        self.bytes: dict[str, LinkBytes] = {}

    def request_model(self, peer: str, secret: WireSecret | None = None, *, afresh: bool = False) -> PendingPull:
        """Ask a neighbour for what is new in its model; ``afresh`` if it no longer has the key list.

        secret: under which keys travel, here and below; otherwise the newest.
        """
        if peer not in self.learner.links.known:
            raise PeerError(f"{peer} is no longer a neighbour")
        if self.learner.private is not None:
            return self._request_everything(self.learner.links.known[peer].publication)
        return self._pending(peer, secret, self.learner.request(peer), None if afresh else self._sent.get(peer))

    def request_tallies(self, peer: str, secret: WireSecret | None = None, *, afresh: bool = False) -> PendingPull:
        """Ask a peer that is heard beside the neighbours for what is new in its tallies."""
        if peer not in self.learner.links.others:
            raise PeerError(f"{peer} is no longer heard")
        base, request = None if afresh else self._sent.get(peer), self.learner.request_tallies(peer)
        pending = self._pending(peer, secret, request, base, rows_only=True)
        expected = replace(
            pending.expected,
            rows=[rows[:, :0] for rows in pending.expected.rows],
            told=self.learner.heard.columns,
        )
        return replace(pending, expected=expected, route="tallies")

    def request_start(self, peer: str) -> PendingPull:
        """Ask for a model to start from: the dense part."""
        none = tuple(torch.empty(0, dtype=torch.long) for _ in self.learner.tables)
        return self._pending(peer, None, PullRequest(0, none, none), None)

    def request_rows(self, peer: str, keys: Sequence[Tensor], secret: WireSecret | None = None) -> PendingPull:
        """Ask for the rows of new ids, by their keys per table."""
        return self._pending(peer, secret, PullRequest(0, tuple(keys), tuple(keys)), None, rows_only=True)

    def _request_everything(self, holds: int) -> PendingPull:
        """Ask for all that is newer than a publication, and name no id."""
        most = everything.most_rows([table.numbering.capacity for table in self.learner.tables])
        expected = replace(self._expected(holds, None), most=most)
        return PendingPull(everything.pack_request(self.schema, holds, most), expected, everything.ROUTE)

    def _pending(
        self,
        peer: str,
        secret: WireSecret | None,
        request: PullRequest,
        base: KeyList | None,
        *,
        rows_only: bool = False,
    ) -> PendingPull:
        if self.learner.private is not None and any(map(len, request.keys)):
            raise InvalidValue("pull", "keys of ids", "none: an edge with privacy on asks about no id")
        cipher = KeyCipher(secret or self.secrets.newest_first[0], self.learner.name, peer)
        data, listed = pack_request(request, self.schema, base, cipher)
        expected = replace(self._expected(request.holds, listed), rows_only=rows_only)
        return PendingPull(data, expected, "rows" if rows_only else "pull")

    def _expected(self, holds: int, listed: KeyList | None) -> ExpectedAnswer:
        learner = self.learner
        statistics = {name: learner.mixed.buffers[name][0] for name in learner.model.statistics()}
        rows = [t.value[0, :-1, : t.width] for t in learner.mixed.tables]
        told = [table.published.shape[1] for table in learner.tables]
        return ExpectedAnswer(self.schema, learner.mixed.dense[0], statistics, rows, told, holds, listed)

    def accept(self, peer: str, pending: PendingPull, answer: bytes) -> PulledModel:
        """Check an answer; ``ModelRefused`` if it is not what was asked for, or not plausible."""
        count = self.bytes.setdefault(peer, LinkBytes())
        count.request += len(pending.data)
        count.dense += len(answer)
        pull = pending.expected.check(answer)
        count.dense, count.rows = count.dense - pull.row_bytes, count.rows + pull.row_bytes
        if pending.route in KEPT_LISTS and peer in self._peers and pending.expected.listed is not None:
            self._sent[peer] = pending.expected.listed
        return pull

    def read_request(self, peer: str, data: bytes) -> tuple[PullRequest, KeyList]:
        """Decode what a peer asks for. This may take a while, and need not run in the learner's thread."""
        if not self.learner.publication.number:
            raise ModelRefused("nothing is published yet")
        tables = len(self.learner.tables)
        with self._count_work(peer):
            lists, most = self._received.of(peer), self._max_keys
            return unpack_request(data, self.schema, tables, lists, partial(self._cipher_from, peer), max_keys=most)

    def _cipher_from(self, peer: str, secret: bytes) -> KeyCipher:
        return cipher_named(self.secrets, secret, peer, self.learner.name)

    def answer_model(self, peer: str, request: PullRequest, listed: KeyList) -> bytes:
        """Answer a peer that pulls the model."""
        self._received.keep(peer, listed)
        return self._answer(peer, request, listed, pack_pull)

    def answer_tallies(self, peer: str, request: PullRequest, listed: KeyList) -> bytes:
        """Answer a peer that hears this edge beside its neighbours."""
        self._received.keep(peer, listed)
        return self._answer(peer, request, listed, pack_tallies)

    def answer_everything(self, peer: str, data: bytes) -> bytes:
        """Answer a peer that names no ids."""
        learner = self.learner
        if not learner.publication.number:
            raise ModelRefused("nothing is published yet")
        with self._count_work(peer):
            holds, most = everything.unpack_request(data, self.schema)
            is_private = learner.private is not None
            pull = learner.publication.answer_everything(holds, learner.tables, private=is_private, most=most)
            widths = [table.width for table in learner.tables]
            return pack_pull(pull, None, self.schema, learner.method.precision, widths=widths)

    def answer_rows(self, peer: str, request: PullRequest, listed: KeyList) -> bytes:
        """Answer a peer that asks for the rows of ids that are new there."""
        return self._answer(peer, request, listed, partial(pack_pull, rows_only=True))

    def _answer(self, peer: str, request: PullRequest, listed: KeyList, pack: Callable[..., bytes]) -> bytes:
        with self._count_work(peer):
            if self.learner.private is not None:  # its rows are untrained: only edges that know that get them
                none = tuple(keys[:0] for keys in request.keys)
                request = PullRequest(request.holds, none, none)
            pull = self.learner.publication.answer(request, self.learner.tables)
            precision, widths = self.learner.method.precision, [table.width for table in self.learner.tables]
            return pack(pull, listed, self.schema, precision, widths=widths)

    def work(self, peer: str) -> float:
        """Seconds of CPU that the requests of a peer have taken since the start."""
        return self._work.get(peer, 0.0)

    @contextmanager
    def _count_work(self, peer: str) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._work[peer] = self._work.get(peer, 0.0) + time.thread_time() - began

    def drop(self, peer: str) -> None:
        """Forget the key list that a peer was sent."""
        self._sent.pop(peer, None)

    def drop_former_peers(self) -> None:
        """Forget the key lists that peers were sent which are neither neighbours nor heard any more."""
        peers = self._peers
        self._sent = {peer: listed for peer, listed in self._sent.items() if peer in peers}

    @property
    def _peers(self) -> Collection[str]:
        """Whom the edge pulls from; a peer may have been given up while it answered."""
        return {*self.learner.links.neighbours, *self.learner.links.others}
