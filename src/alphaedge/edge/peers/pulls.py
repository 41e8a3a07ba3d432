"""Both ends of a pull: what an edge asks another for, whether it believes the answer, and what it answers itself."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.edge.learning.exchange import PulledModel, PullRequest
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.peers.key_lists import KeyList
from alphaedge.edge.peers.wire import ExpectedAnswer, pack_pull, pack_request, unpack_request
from alphaedge.errors import ModelRefused

ASKERS: Final = 256  # edges whose lists of keys are kept
LISTS: Final = 2  # of each: the last one, and the one before it, in case the last answer was lost


@final
@dataclass(frozen=True)
class PendingPull:
    """A request on its way, and what its answer must look like."""

    data: bytes
    expected: ExpectedAnswer


@final
@dataclass
class LinkBytes:
    """Bytes that went over one link, by kind."""

    request: int = 0
    dense: int = 0  # the answers, but for rows
    rows: int = 0


@final
class Pulls:
    """One edge's pulls. schema: what others must have in common with it. half: whether its answers are bfloat16.

    The lists of keys are no part of the state: who has lost them says or hears all keys again.
    """

    def __init__(self, learner: Learner, schema: str, *, half: bool) -> None:
        self.learner, self.schema, self.half = learner, schema, half
        self._said: dict[str, KeyList] = {}
        self._heard: OrderedDict[str, list[KeyList]] = OrderedDict()
        self.bytes: dict[str, LinkBytes] = {}

    def ask(self, peer: str, *, anew: bool = False) -> PendingPull:
        """What to ask a neighbour for; ``anew`` if it has forgotten which keys it was told."""
        return self._asked(self.learner.request(peer), None if anew else self._said.get(peer))

    def ask_for_a_start(self) -> PendingPull:
        """What an edge asks for that knows nothing: the dense part."""
        none = tuple(torch.empty(0, dtype=torch.long) for _ in self.learner.tables)
        return self._asked(PullRequest(0, none, none), None)

    def ask_for_rows(self, keys: Sequence[Tensor]) -> PendingPull:
        """What to ask about ids that are new here."""
        return self._asked(PullRequest(0, tuple(keys), tuple(keys)), None, rows_only=True)

    def _asked(self, request: PullRequest, base: KeyList | None, *, rows_only: bool = False) -> PendingPull:
        learner = self.learner
        data, listed = pack_request(request, self.schema, base)
        told = {name: learner.mixed.buffers[name][0] for name in learner.model.statistics()}
        rows = [t.value[0, :-1] for t in learner.mixed.tables]
        return PendingPull(
            data, ExpectedAnswer(self.schema, learner.mixed.dense[0], told, rows, request.holds, listed, rows_only)
        )

    def believe(self, peer: str, asked: PendingPull, answer: bytes) -> PulledModel:
        """What was answered, if it can be believed."""
        count = self.bytes.setdefault(peer, LinkBytes())
        count.request += len(asked.data)
        count.dense += len(answer)
        pull = asked.expected.check(answer)
        count.dense, count.rows = count.dense - pull.row_bytes, count.rows + pull.row_bytes
        if not asked.expected.rows_only:
            self._said[peer] = asked.expected.listed
        return pull

    def answer(self, peer: str, data: bytes) -> bytes:
        """What another edge gets that asks for the model."""
        publication, tables = self.learner.publication, self.learner.tables
        if not publication.number:
            raise ModelRefused("nothing is published yet")
        request, listed = unpack_request(data, self.schema, len(tables), self._heard.get(peer, ()))
        self._heard[peer] = [*self._heard.pop(peer, ()), listed][-LISTS:]
        while len(self._heard) > ASKERS:
            self._heard.popitem(last=False)
        return pack_pull(publication.answer(request, tables), listed, self.schema, half=self.half)

    def answer_rows(self, data: bytes) -> bytes:
        """What another edge gets that asks about ids which are new there."""
        publication, tables = self.learner.publication, self.learner.tables
        if not publication.number:
            raise ModelRefused("nothing is published yet")
        request, listed = unpack_request(data, self.schema, len(tables), ())
        pull = publication.answer(request, tables)
        return pack_pull(pull, listed, self.schema, half=self.half, rows_only=True)

    def part_with(self, peer: str) -> None:
        """Forget what a former neighbour was told."""
        self._said.pop(peer, None)
