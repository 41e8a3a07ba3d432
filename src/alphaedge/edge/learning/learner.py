"""What a live edge learns: its mixed model, its home model, the models it holds of peers, and the three steps.

No I/O and no clock: batches come in the order of their feedback, peers' models when they were pulled, and the caller
decides when. The same calls give the same state; recovery rests on that.

Every E batches a round is due. The batches that its weights are learned on are the last ones before it; the mixed
model trains on them only after the mix, the home model at once. A round is ``start_round``, pulls, ``mix``,
``finish_round``.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.home import combine, no_evidence, parabola
from alphaedge.core.links import Links
from alphaedge.core.methods import Method
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.round import Round, join, mix, select
from alphaedge.core.start import median
from alphaedge.core.state import ModelState
from alphaedge.edge.inputs.lookup import Inputs, compact_keys
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.heard_tallies import HeardTallies
from alphaedge.edge.learning.held_model import HeldModel, stacked
from alphaedge.edge.learning.id_tables import outputs_of
from alphaedge.edge.learning.private_release import PrivateRelease, Secrets
from alphaedge.edge.learning.publication import Publication, PulledModel, PullRequest
from alphaedge.edge.learning.start_check import find_better_start
from alphaedge.edge.learning.told_rows import make_tables, note_users, rows_due
from alphaedge.edge.learning.undo import ModelBefore
from alphaedge.errors import InvalidValue, RuleError


@final
class Learner:
    """One edge's learning.

    name: of the edge. seed: of everything that is drawn; edges of one fleet share it and draw by their names.
    capacities: the most rows that each id table may have. secrets: for a method with privacy.
    """

    def __init__(
        self,
        gradients: Gradients,
        method: Method,
        online: Online,
        *,
        name: str,
        seed: int,
        capacities: Sequence[int],
        secrets: Secrets | None = None,
    ) -> None:
        model = gradients.model
        self.model, self.gradients, self.method, self.online = model, gradients, method.suited(model), online
        self.name, self.seed = name, seed
        self.mixed = ModelState.start([model], [0])
        self.home = self.mixed.copy() if method.home else None
        self.evidence = no_evidence(1, model.dtype)  # about the blend of the two
        self.unused = torch.zeros(1, dtype=torch.long)  # batches in a row without a use of the mixed model
        self.private = None if method.privacy is None else PrivateRelease.of(method.privacy, model, secrets)
        copies = [*self.states.values(), *([self.private.models] if self.private is not None else [])]
        self.tables = make_tables(model, method, copies, capacities)
        self.links: Links[str] = Links.start([], method.aggregation.memory)
        self.held: dict[str, HeldModel] = {}
        self.heard = HeardTallies(self.tables, [layout.tallied for layout in model.tables])
        self.publication = Publication()
        self.topology: dict[str, float] = {}
        self.records = self.revealed = self.aggregations = self.batches_undone = 0
        self.waiting: list[Examples] = []  # for the mix to come
        self._ahead: list[ModelBefore] = []  # the mixed model before each of those, if it has trained on them already
        self.gave_up_start = False  # whether the peers' models to start from were of no use
        self.undone: list[Examples] = []  # batches since the last one that was trained on
        self.last_trained: Examples | None = None
        self._round_ended_at = 0  # ``revealed`` at the end of the last round
        self.reset = False  # whether the mixed model started anew in this round

    @property
    def states(self) -> dict[str, ModelState]:
        """The edge's models by name: the mixed one, and the home model if the method has one."""
        return {"mixed": self.mixed} | ({"home": self.home} if self.home is not None else {})

    def note_round_end(self) -> None:
        """Note that no round is due for what was revealed up to now; a restored state is one at the end of a round."""
        self._round_ended_at = self.revealed

    def join(self, candidates: Sequence[str]) -> None:
        """Choose the first neighbours."""
        self.links = join(self.method, self.name, candidates, self._rng("first peers"))

    def bootstrap(self, pulls: Sequence[PulledModel]) -> None:
        """Start from the median of peers' models instead of from nothing; only before anything was learned."""
        if self.revealed:
            raise InvalidValue("bootstrap", f"{self.revealed} batches learned", "an edge that has learned nothing yet")
        for state in self.states.values():
            state.dense[0] = median(torch.stack([pull.dense for pull in pulls]))
            for name in pulls[0].statistics:
                state.buffers[name][0] = median(torch.stack([pull.statistics[name] for pull in pulls]))
        if self.private is not None:
            self.private.start_from(self.mixed)

    def hold(self, peer: str, pull: PulledModel) -> None:
        """Keep what was pulled from a neighbour."""
        held = self.held.setdefault(peer, HeldModel(self.mixed.dense[0], self.tables))
        held.take(pull, self.tables, None if self.private is None else self.aggregations)

    def drop(self, peer: str) -> None:
        """Drop a peer: it is neither mixed in nor heard again unless it is chosen again."""
        self.links.drop(peer)
        self._forget_former_peers()

    def note_new_start(self, peer: str, published: int) -> bool:
        """Forget what is held of a peer that has published less since it began anew; whether it has.

        Its model counts as that of a peer whose rows are not proven yet. Its exclusions and its weight stay.
        """
        link, ear = self.links.known.get(peer), self.links.ears.get(peer)
        began = False
        if link is not None and published < link.publication:
            link.publication, link.pulled_at, link.tried = -1, -1, False
            self.held.pop(peer, None)
            began = True
        if ear is not None and published < ear.publication:
            ear.publication = ear.pulled_at = -1
            self.heard.held.pop(peer, None)
            began = True
        return began

    def adopt(self, table: int, keys: Tensor, rows: Tensor) -> int:
        """Start the rows of new ids from what peers know about them (cold start); how many were new."""
        new = self.tables[table].rows(keys) < 0
        new[new.cumsum(0) > self.tables[table].numbering.capacity // 2] = (
            False  # never evict more than half of the table
        )
        if new.any():
            self.admit(table, keys[new])
            self.tables[table].adopt(keys[new], rows[new])
        return int(new.sum())

    def predict(self, inputs: Inputs) -> Tensor:
        """Outputs [B]: those of the mixed model and the home model, blended by the learned share."""
        mixed = outputs_of(self.mixed, self.tables, inputs, self.gradients)
        if self.home is None or self.method.home is None:
            return mixed[0]
        alone = outputs_of(self.home, self.tables, inputs, self.gradients)
        return combine(self.method.home.share(self.evidence), mixed, alone)[0]

    def anew(self) -> "Learner":
        """A learner of the same edge that has learned nothing yet."""
        capacities = [table.numbering.capacity for table in self.tables]
        parts, secrets = (self.gradients, self.method, self.online), self.private and self.private.secrets
        return Learner(*parts, name=self.name, seed=self.seed, capacities=capacities, secrets=secrets)

    def learn(self, examples: Examples) -> bool:
        """Learn from a batch: the home model at once, the mixed model unless the batch waits for the next mix.

        A batch after which a model would no longer be finite is undone, and counts as not learned; False then.
        """
        batch = self._batch(examples)
        if self.revealed == 0:
            self._check_start(batch)
        self.revealed += 1
        learned = self._or_undo(examples, batch, partial(self._learn, examples, batch))
        if learned and self.private is not None:
            self.private.add(examples)
        return learned

    def _or_undo(self, examples: Examples, batch: Batch, work: Callable[[ModelBefore], object]) -> bool:
        """Do what changes the models by a batch, or nothing of it if they would no longer be finite.

        work: given what the mixed model was before it.
        """
        lazy, tables = self.online.for_rows.lazy_rows, zip(self.tables, batch.rows, strict=True)
        named = [rows[0][rows[0] < t.size] if lazy else torch.arange(t.size) for t, rows in tables]
        before = [ModelBefore(state, named) for state in self.states.values()]
        records, evidence, unused, waiting = self.records, self.evidence, self.unused, list(self.waiting)
        ahead = list(self._ahead)
        work(before[0])
        if all(model.is_intact() for model in before) and bool(torch.isfinite(self.evidence).all()):
            if self.records > records:  # a batch that waits for the mix is yet to be trained on
                self.undone, self.last_trained = [], examples
                note_users(self.tables, self.model, self.method, examples, batch, self.aggregations + self.past_pull)
            return True
        for model in before:
            model.restore()
        self.records, self.evidence, self.unused = records, evidence, unused
        self.waiting, self._ahead = waiting, ahead
        self.undone.append(examples)
        self.batches_undone += 1
        return False

    def _learn(self, examples: Examples, batch: Batch, before: ModelBefore) -> None:
        loss = self.model.loss.function
        every = self.method.aggregate_every
        waits = (self.revealed - 1) % every >= every - self.method.weight_batches
        if waits and not self.method.train_ahead:
            mixed = predict(self.mixed, batch, self.gradients)
        else:
            if waits:
                self._ahead.append(before)
            mixed = self._train(batch)
        if self.home is not None and self.method.home is not None:
            alone, _ = learn(self.home, batch, self.gradients, self.online)
            for table, rows in zip(self.tables, batch.rows, strict=True):
                table.mark_changed(rows[0])
            blends = (alone, combine(0.5, mixed, alone), mixed)
            losses = (loss(outputs[0], batch.labels[0]).unsqueeze(0) for outputs in blends)
            self.evidence = self.method.home.update(self.evidence, parabola(*losses))
            self.unused = self.method.home.unused(self.unused, self.method.home.share(self.evidence))
        if waits:
            self.waiting.append(examples)

    def _check_start(self, batch: Batch) -> None:
        """Give up a model that the edge has started from, if it is far worse on the first batch than none.

        The released model keeps it: peers would see what the batch has decided.
        """
        fresh = find_better_start(self.mixed, self.tables, batch, self.gradients)
        if fresh is not None:
            self.gave_up_start = True
            for state in self.states.values():
                state.copy_edges(torch.tensor([0]), fresh)
            for table in self.tables:
                table.mark_all_changed()

    @property
    def past_pull(self) -> bool:
        """Whether the models for the next round are to be pulled, or have been. Ids that are new now come too late."""
        every, ahead = self.method.aggregate_every, self.method.pull_ahead
        return ahead > 0 and (self.due or self.revealed % every >= every - ahead)

    @property
    def due(self) -> bool:
        """Whether a round is due."""
        return self.revealed % self.method.aggregate_every == 0 and self.revealed > self._round_ended_at

    def start_round(self) -> None:
        """Begin a round: publish the model as it was trained, unless the method publishes mixed models.

        A mixed model that has been of no use for long starts anew from the home model first, and skips this mix.
        """
        if self.home is not None and self.method.home is not None and bool(self.method.home.is_lost(self.unused)):
            self._reset(self.home)
        if self.method.publish == "trained":
            self._publish()

    def _reset(self, home: ModelState) -> None:
        """Start the mixed model anew from the home model, which has trained on the waiting batches already."""
        self.reset = True
        self.mixed.copy_edges(torch.tensor([0]), home)
        self.evidence, self.unused = torch.zeros_like(self.evidence), torch.zeros_like(self.unused)
        self.links.restart(self.method.aggregation.memory)
        for table in self.tables:
            table.mark_all_changed()
        for examples in self.waiting if not self._ahead else ():
            self._note_trained(self._batch(examples))

    def _publish(self) -> None:
        """Let peers pull what was learned so far, and know who the neighbours are; with privacy, what may be told."""
        if self.private is not None:
            self.publication = self.private.publish(self.publication, self.tables, self.method.precision)
            return
        self.topology = self.links.shares()
        if not self.records:
            return
        self.publication = self.snapshot(self.publication.number + 1)
        number_bytes = self.mixed.dense.element_size()
        for table, due in zip(self.tables, rows_due(self.tables, self.method, number_bytes), strict=True):
            table.publish(self.publication.number, self.method.precision, due)

    def snapshot(self, number: int) -> Publication:
        """What may be published as a publication of that number; its rows are in the tables."""
        if self.private is not None:
            return self.private.snapshot(number, self.publication, self.method.precision)
        told = self.mixed, self.model, number, self.records, self.publication.residual, self.method.precision
        return Publication.of(*told)

    def request(self, peer: str) -> PullRequest:
        """What to ask a neighbour for."""
        link = self.links.known[peer]
        return self._request(link.publication, link.pulled_at, [True] * len(self.tables))

    def request_tallies(self, peer: str) -> PullRequest:
        """What to ask a peer for that is heard beside the neighbours."""
        ear = self.links.ears[peer]
        return self._request(ear.publication, ear.pulled_at, [layout.tallied for layout in self.model.tables])

    def _request(self, holds: int, pulled_at: int, of_tables: Sequence[bool]) -> PullRequest:
        keys, fresh = [], []
        for table, asked in zip(self.tables, of_tables, strict=True):
            own = torch.tensor(table.numbering.keys_by_row() if asked else [], dtype=torch.long)
            since = table.named_since[: len(own)]
            keys.append(own[since >= 0])
            fresh.append(own[(since >= 0) & (since > pulled_at)])
        return PullRequest(holds, tuple(keys), tuple(fresh))

    def mix(self, answered: Sequence[str], heard: Collection[str] = ()) -> dict[str, float]:
        """Mix in the models held of the neighbours that answered; the shares of the mix, own share under the own name.

        heard: the others whose tallies came.

        If nobody answered, or no batch is left to learn weights on, the edge's own model stays. So it does if the rule
        fails, which is a ``RuleError``.
        """
        present = [peer in answered for peer in self.links.neighbours]
        if not any(present) or not self.method.aggregation.uses_peers or self.reset or not self.waiting:
            return {self.name: 1.0}
        self._go_back()
        peers = list(self.links.neighbours)
        batches = [self._batch(examples) for examples in self.waiting]  # first: it may make room for new ids
        empty = HeldModel(self.mixed.dense[0], self.tables)
        held = [self.held[j] if there else empty for j, there in zip(peers, present, strict=True)]
        statistics = self.model.statistics() if self.method.statistics == "mixed" else ()
        own = {name: self.mixed.buffers[name][0] for name in statistics}
        only = torch.tensor([0])
        models = self.mixed.select_models(only)
        round = Round(
            models=models,
            links=[self.links],
            held=stacked(held, present, self.tables, own, trained_rows=self.private is None),
            publications=[[one.number for one in held]],
            aggregations=[self.aggregations],
            records=torch.tensor([[self.records, *(h.records for h in held)]], dtype=self.mixed.dense.dtype),
            batches=batches,
            known=[table.known() for table in self.tables],
            overheard=self.heard.overheard(self.links.others, heard),
        )
        rows = [table.value.clone() for table in self.mixed.tables]
        try:
            ((own_share, *shares),) = mix(self.method, self.gradients, round, finite=True)
        except RuleError:  # it may have mixed some rows already
            for mixed, before in zip(self.mixed.tables, rows, strict=True):
                mixed.value.copy_(before)
            raise
        self.mixed.write_models(only, models)
        for table in self.tables:
            table.mark_all_changed()
        if not self.method.train_on_aggregation:
            self.waiting = []
        return {self.name: own_share, **dict(zip(peers, shares, strict=True))}

    def _go_back(self) -> None:
        """Make the mixed model what it was before the batches that wait for the mix, if it has trained on them."""
        for before in reversed(self._ahead):
            before.restore()
        self.records -= sum(len(examples.labels) for examples in self.waiting[: len(self._ahead)])
        self._ahead = []

    def finish_round(
        self,
        candidates: Sequence[str],
        topology: Mapping[str, Mapping[str, float]],
        absent: Collection[str] = (),
    ) -> str | None:
        """End a round: choose neighbours if it is time to, publish a mixed model, train on what waited for the mix.

        absent: neighbours whose model did not come. Returns why the choice of neighbours was refused, if it was; they
        stay as they are then.
        """
        refused = self._select(candidates, topology, absent) if self.method.aggregation.uses_peers else None
        self.aggregations += 1
        self.note_round_end()
        if self.method.publish == "mixed":
            self._publish()
        waiting, self.waiting = self.waiting, []
        ahead, self._ahead = self._ahead, []
        if not self.reset and not ahead:
            self.train_mixed(waiting)
        self.reset = False
        return refused

    def train_mixed(self, waited: Sequence[Examples]) -> None:
        """Train the mixed model on batches that have waited for a mix; the home model has trained on them already."""
        for examples in waited:
            batch = self._batch(examples)
            self._or_undo(examples, batch, lambda _: self._train(batch))  # noqa: B023  called at once

    def _select(
        self, candidates: Sequence[str], topology: Mapping[str, Mapping[str, float]], absent: Collection[str]
    ) -> str | None:
        try:
            select(
                self.method,
                self.name,
                self.links,
                aggregations=self.aggregations,
                candidates=candidates,
                topology=topology,
                absent=absent,
                rng=self._rng("peers"),
            )
        except RuleError as error:
            return str(error)
        self._forget_former_peers()
        return None

    def _forget_former_peers(self) -> None:
        self.held = {j: held for j, held in self.held.items() if j in self.links.neighbours}
        self.heard.keep(self.links.others)

    def _train(self, batch: Batch) -> Tensor:
        outputs, _ = learn(self.mixed, batch, self.gradients, self.online)
        self._note_trained(batch)
        return outputs

    def _note_trained(self, batch: Batch) -> None:
        self.records += batch.labels.shape[1]
        for table, rows in zip(self.tables, batch.rows, strict=True):
            table.mark_trained(rows[0])

    def _batch(self, examples: Examples) -> Batch:
        """A batch as the core sees it; ids that are new get rows."""
        inputs, keys = compact_keys(self.model, examples.inputs)
        rows = tuple(self.admit(t, wanted) for t, wanted in enumerate(keys))
        return Batch(tuple(inputs), rows, examples.labels.to(self.model.dtype).unsqueeze(0))

    def admit(self, table: int, keys: Tensor) -> Tensor:
        """The rows of keys; new keys get rows, those of the longest unused keys if the table is full."""
        row, admitted = self.tables[table].admit(keys, self.aggregations + self.past_pull)
        given_up = torch.tensor([a.row for a in admitted if a.previous is not None], dtype=torch.long)
        for held in self.held.values():
            held.drop(table, given_up)
        self.heard.drop(table, given_up)
        for before in self._ahead:
            before.forget(table, given_up)
        if self.private is not None:
            self.private.drop(table, given_up)
        return row

    def _rng(self, purpose: str) -> random.Random:
        """Randomness for one purpose at this aggregation, the same after a restart."""
        return random.Random(f"{self.seed}/{self.name}/{self.aggregations}/{purpose}")
