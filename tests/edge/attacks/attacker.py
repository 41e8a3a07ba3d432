"""A real edge that attacks: ``python -m tests.edge.attacks.attacker ATTACK edge serve --config FILE``.

It is a member with a valid certificate, and runs the same server and learner as everybody else. Only what its learner
publishes, claims or answers is forged: by an attack of ``alphaedge.attacks``, or by one of the transport
(``TRANSPORT``), which the simulator does not know.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from alphaedge.attacks.attack import Attack, Forgery, Scene
from alphaedge.attacks.catalog import ATTACKS
from alphaedge.edge import learner_process
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.publication import Publication, PulledModel, PullRequest
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.supervisor import LearnerCommand
from alphaedge.edge.trust.certificates import Identity
from alphaedge.errors import PeerError

SLOW_SECONDS: Final = 45.0
OVERSIZED_BYTES: Final = 50_000_000
OVERSIZED_EVERY_SECONDS: Final = 0.5


def forge_publications(attack: Attack) -> None:
    """Let every learner of this process forge what it publishes."""
    publish, learn, answer = Learner._publish, Learner.learn, Publication.answer
    start: list[torch.Tensor] = []  # the dense part before anything was learned
    first: list[Forgery] = []

    def forged_publish(self: Learner) -> None:
        publish(self)
        if self.publication.number and self.records:
            scene = _scene(self, start[0], first[0] if first else None)
            forgery = _forgery(self)
            if not first:
                first.append(_forgery(self))
            attack.forge(forgery, scene)
            self.publication = Publication(
                self.publication.number, forgery.records, forgery.dense, dict(forgery.statistics)
            )
            for table, rows in zip(self.tables, _whole(forgery), strict=True):
                table.published[_new(table, self.publication.number)] = rows
            self.topology = dict(forgery.shares)

    def forged_learn(self: Learner, examples: Examples) -> bool:
        if not start:
            start.append(self.mixed.dense[0].clone())
        labels = 1 - examples.labels if attack.flips_labels else examples.labels
        return learn(self, Examples(examples.inputs, labels))

    def forged_answer(self: Publication, request: PullRequest, tables: Sequence[IdRows]) -> PulledModel:
        honest = answer(self, request, tables)
        if not attack.claims_all_rows:
            return honest
        keys = tuple(request.fresh)  # whatever is asked for, known or not
        empty = [
            table.published.new_zeros(len(some), table.published.shape[1])
            for table, some in zip(tables, keys, strict=True)
        ]
        rows, tallies = _split(empty, tables)
        forgery = Forgery(self.dense, rows, dict(self.statistics), self.records, tallies=tallies)
        attack.forge(forgery, Scene(self.dense, self.number, None, None, [], torch.Generator()))
        return PulledModel(self.number, self.records, self.dense, self.statistics, keys, tuple(_whole(forgery)))

    replaced: Mapping[str, Callable[..., Any]] = {"_publish": forged_publish, "learn": forged_learn}
    for name, function in replaced.items():
        setattr(Learner, name, function)
    Publication.answer = forged_answer  # type: ignore[method-assign]


def _new(table: IdRows, number: int) -> torch.Tensor:
    return (table.version == number).nonzero().squeeze(1)


def _split(rows: Sequence[torch.Tensor], tables: Sequence[IdRows]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Parameters and tallies of rows, per table."""
    parts = [some.tensor_split([table.width], dim=1) for some, table in zip(rows, tables, strict=True)]
    return [parameters for parameters, _ in parts], [tallies for _, tallies in parts]


def _whole(forgery: Forgery) -> list[torch.Tensor]:
    return [torch.cat(parts, dim=1) for parts in zip(forgery.rows, forgery.tallies, strict=True)]


def _forgery(learner: Learner) -> Forgery:
    number = learner.publication.number
    published = [table.published[_new(table, number)].clone() for table in learner.tables]
    rows, tallies = _split(published, learner.tables)
    return Forgery(
        learner.publication.dense.clone(),
        rows,
        {name: value.clone() for name, value in learner.publication.statistics.items()},
        learner.publication.records,
        dict(learner.topology),
        tallies,
    )


def _scene(learner: Learner, start: torch.Tensor, first: Forgery | None) -> Scene:
    """What the attacker knows; the victim is the neighbour whose model it holds."""
    number, own = learner.publication.number, _forgery(learner)
    victim = next(iter(learner.held.values()), None)
    copied = None
    if victim is not None:
        victim.fit(learner.tables)
        rows = []
        for t, table in enumerate(learner.tables):
            some = _new(table, number)
            theirs = victim.rows[t][some, : table.width]
            rows.append(torch.where(victim.has[t][some].unsqueeze(1), theirs, own.rows[t]))
        copied = Forgery(victim.dense.clone(), rows, {}, victim.records)
    if first is not None:  # rows of the first publication belong to other ids
        first = Forgery(first.dense, own.rows, first.statistics, first.records)
    return Scene(start, number, first, copied, [], torch.Generator().manual_seed(number))


def answer_slowly() -> None:
    """Answer pulls correctly, but long after anybody should wait for it."""
    honest = PeerDriver._answer_model

    async def slow(self: PeerDriver, sender: Identity, request: bytes) -> bytes:
        await asyncio.sleep(SLOW_SECONDS)
        return await honest(self, sender, request)

    PeerDriver._answer_model = slow  # type: ignore[method-assign]


def send_oversized_requests() -> None:
    """Send requests to all others, again and again, that are far larger than any that is allowed."""
    honest = PeerDriver.run

    async def run(self: PeerDriver, stop: asyncio.Event) -> None:
        async def flood() -> None:
            while True:
                for edge, one in list(self.directory.alive().items()):
                    if edge != self.config.edge:
                        for endpoint in ("pull", "delta"):
                            with contextlib.suppress(PeerError):
                                await self._client.request(
                                    one.address, endpoint, bytes(OVERSIZED_BYTES), max_bytes=0, edge=edge
                                )
                await asyncio.sleep(OVERSIZED_EVERY_SECONDS)

        flooding = asyncio.create_task(flood())
        try:
            await honest(self, stop)
        finally:
            flooding.cancel()

    PeerDriver.run = run  # type: ignore[method-assign]


TRANSPORT: Final[Mapping[str, Callable[[], None]]] = {
    "slow-peer": answer_slowly,
    "oversized-requests": send_oversized_requests,
}


def main() -> None:
    """Run the edge, or its learner if the server has started this as such."""
    name, role, *arguments = sys.argv[1:]
    if role == "learner":
        if name in TRANSPORT:
            TRANSPORT[name]()
        else:
            forge_publications(ATTACKS[name]())
        sys.argv = ["learner", *arguments]
        learner_process.main()
        return
    from alphaedge.cli import app

    honest = LearnerCommand.argv

    def argv(self: LearnerCommand) -> list[str]:
        return [sys.executable, "-m", __spec__.name, name, "learner", *honest(self)[3:]]

    LearnerCommand.argv = argv  # type: ignore[method-assign]
    app([role, *arguments])


if __name__ == "__main__":
    main()
