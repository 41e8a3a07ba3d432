"""What a live edge learns: a fleet of one, its twin, its peers' models, and the three steps of the method.

No I/O and no clock: batches come in the order in which their feedback did, peers' models when they were pulled, and
whoever calls decides when. The same calls give the same state, which is what recovery rests on.

Every E batches an aggregation is due. The batches that its weights are learned on are the last ones before it; the
mixed model trains on them only after the mix, the twin at once.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Alone, ByRecords, HeldModels, Learned, Weights, aggregate, pulled, shares
from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.home import combine
from alphaedge.core.links import Links, stack, unstack
from alphaedge.core.methods import Method
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.selection import View
from alphaedge.core.state import ModelState
from alphaedge.edge.inputs.lookup import Wanted, named
from alphaedge.edge.learning.exchange import HeldModel, Publication, PulledModel, PullRequest
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.errors import InvalidValue

Inputs = Sequence[Tensor]  # [B, ...] in the order of the model's fields; ids are keys


class Examples(NamedTuple):
    """A batch whose outcomes are known."""

    inputs: Inputs
    labels: Tensor


@final
class Learner:
    """One edge's learning.

    name: its id. seed: of everything that is drawn; edges of one fleet have the same and draw by their names.
    capacities: rows that each id table may have at most.
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
    ) -> None:
        model = gradients.model
        self.model, self.gradients, self.method, self.online = model, gradients, method, online
        self.name, self.seed = name, seed
        self.fleet = ModelState.start([model], [0])
        self.home = self.fleet.copy() if method.home else None
        self.lead = torch.zeros(1, dtype=model.dtype)
        fleets = [self.fleet, self.home] if self.home else [self.fleet]
        self.tables = [
            IdRows(model.initial_table(t), [f.tables[t] for f in fleets], capacity)
            for t, capacity in enumerate(capacities)
        ]
        start = method.aggregation.start if isinstance(method.aggregation, Learned) else 1.0
        self.links: Links[str] = Links.start([], start)
        self.held: dict[str, HeldModel] = {}
        self.publication = Publication()
        self.topology: dict[str, float] = {}
        self.records = self.revealed = self.aggregations = 0
        self.kept: list[Examples] = []  # for the aggregation to come

    def join(self, candidates: Sequence[str]) -> None:
        """Take first neighbours."""
        neighbours = self.method.selection.first(self.name, candidates, self._rng("first peers"))
        self.links = Links.start(neighbours, self.links.own.weight)

    def bootstrap(self, pull: PulledModel) -> None:
        """Start from a peer's model instead of from nothing; only before anything was learned."""
        if self.revealed:
            raise InvalidValue("bootstrap", f"{self.revealed} batches learned", "an edge that has learned nothing yet")
        for fleet in (self.fleet, self.home) if self.home else (self.fleet,):
            fleet.dense[0] = pull.dense
            for name, value in pull.statistics.items():
                fleet.buffers[name][0] = value

    def part_with(self, peer: str) -> None:
        """Never mix in this neighbour again unless it is chosen anew."""
        self.links.drop(peer)
        self.held.pop(peer, None)

    def adopt(self, table: int, keys: Tensor, rows: Tensor) -> int:
        """Give new ids rows that start from what peers know of them (cold start); how many were new."""
        new = self.tables[table].rows(keys) < 0
        new[new.cumsum(0) > self.tables[table].numbering.capacity // 2] = False  # never for the price of all others
        if new.any():
            self._admit(table, keys[new])
            self.tables[table].adopt(keys[new], rows[new])
        return int(new.sum())

    def predict(self, inputs: Inputs) -> Tensor:
        """Outputs [B] of the mixed model and its twin, by the share that the judge gives each."""
        mixed = self._outputs(self.fleet, inputs)
        if self.home is None or self.method.home is None:
            return mixed[0]
        return combine(self.method.home.share(self.lead), mixed, self._outputs(self.home, inputs))[0]

    def learn(self, examples: Examples) -> None:
        """Learn from a batch: the twin at once, the mixed model unless the batch is kept for an aggregation."""
        batch = self._batch(examples)
        loss = self.model.loss.function
        keep = self.revealed % self.method.aggregate_every >= self.method.aggregate_every - self.method.gathered
        mixed = predict(self.fleet, batch, self.gradients) if keep else self._train(batch)
        if self.home is not None and self.method.home is not None:
            alone, _ = learn(self.home, batch, self.gradients, self.online)
            for table, rows in zip(self.tables, batch.rows, strict=True):
                table.touched(rows[0])
            losses = (loss(outputs[0], batch.labels[0]).unsqueeze(0) for outputs in (mixed, alone))
            self.lead = self.method.home.update(self.lead, *losses)
        if keep:
            self.kept.append(examples)
        self.revealed += 1

    @property
    def due(self) -> bool:
        """Whether it is time to aggregate."""
        return bool(self.kept) and self.revealed % self.method.aggregate_every == 0

    def publish(self) -> None:
        """Let others fetch what was learned so far, and know of the own neighbours."""
        self.topology = self.links.shares()
        if not self.records:
            return
        told = self.model.statistics()
        self.publication = Publication(
            self.publication.number + 1,
            self.records,
            self.fleet.dense[0].clone(),
            {name: self.fleet.buffers[name][0].clone() for name in told},
        )
        for table in self.tables:
            table.publish(self.publication.number)

    def request(self, peer: str) -> PullRequest:
        """What to ask a neighbour for."""
        link = self.links.known[peer]
        keys, fresh = [], []
        for table in self.tables:
            own = torch.tensor(table.numbering.by_row(), dtype=torch.long)
            keys.append(own)
            fresh.append(own[table.known_since[: len(own)] > link.fetched_at])
        return PullRequest(link.publication, tuple(keys), tuple(fresh))

    def aggregate(self, answered: Sequence[str]) -> dict[str, float]:
        """Mix in the models held of the neighbours that answered, then train on what was kept.

        Returns the shares of the mix, the own one under the own name; nobody but oneself if nobody answered.
        """
        found = {self.name: 1.0}
        present = [peer in answered for peer in self.links.neighbours]
        if any(present) and not isinstance(self.method.aggregation, Alone):
            found = self._mix(present)
            if not self.method.train_on_aggregation:
                self.kept = []
        return found

    def choose(self, candidates: Sequence[str], topology: Mapping[str, Mapping[str, float]]) -> None:
        """End an aggregation: choose peers if it is time to, and train on what was kept."""
        rule = self.method.aggregation
        if not isinstance(rule, Alone) and (self.aggregations + 1) % self.method.selection.every == 0:
            view = View(
                edge=self.name,
                neighbours=self.links.neighbours,
                candidates=candidates,
                shares=self.links.shares(),
                topology={j: topology.get(j, {}) for j in self.links.neighbours},
                remembered=self.links.remembered(),
            )
            chosen = self.method.selection.choose(view, self._rng("peers"))
            self.links.switch(chosen, rule if isinstance(rule, Learned) else Learned())
            self.held = {j: held for j, held in self.held.items() if j in chosen}
        self.aggregations += 1
        kept, self.kept = self.kept, []
        for examples in kept:
            self._train(self._batch(examples))

    def _mix(self, present: Sequence[bool]) -> dict[str, float]:
        rule, peers = self.method.aggregation, self.links.neighbours
        batches = [self._batch(examples) for examples in self.kept]  # first: it may make room for new ids
        empty = HeldModel(self.fleet.dense[0], self.tables)
        held = [self.held[j] if there else empty for j, there in zip(peers, present, strict=True)]
        for one in held:
            one.fit(self.tables)
        mixed = self.method.statistics == "mixed"
        statistics = self.model.statistics() if mixed else ()
        own = {name: self.fleet.buffers[name][0] for name in statistics}
        fetched = HeldModels(
            torch.stack([h.dense for h in held]),
            tuple(torch.stack([h.rows[t] for h in held]) for t in range(len(self.tables))),
            tuple(torch.stack([h.has[t] for h in held]) for t in range(len(self.tables))),
            {name: torch.stack([h.statistics.get(name, own[name]) for h in held]) for name in statistics},
            torch.arange(len(held)).unsqueeze(0),
            torch.tensor([present]),
        )
        records = torch.tensor([[self.records, *(h.records for h in held)]], dtype=self.fleet.dense.dtype)
        if isinstance(rule, Learned):
            learned = stack([self.links], len(held), self.fleet.dense.dtype)
            weights = pulled(learned, fetched.present, records, rule)
        else:
            weights = Weights.fixed(records if isinstance(rule, ByRecords) else torch.ones_like(records))
        models = self.fleet.models(torch.tensor([0]))
        known = [table.known() for table in self.tables]
        weights = aggregate(models, fetched, weights, rule, batches, self.gradients, known)
        self.fleet.put_models(torch.tensor([0]), models)
        for table in self.tables:
            table.mixed()
        if isinstance(rule, Learned):
            unstack(weights, [self.links])
        for peer, one, there in zip(peers, held, present, strict=True):
            if there:
                self.links.known[peer].publication, self.links.known[peer].fetched_at = one.number, self.aggregations
        row = shares(weights.raw, fetched.present)[0].tolist()
        return dict(zip([self.name, *peers], row, strict=True))

    def _train(self, batch: Batch) -> Tensor:
        outputs, _ = learn(self.fleet, batch, self.gradients, self.online)
        self.records += batch.labels.shape[1]
        for table, rows in zip(self.tables, batch.rows, strict=True):
            table.learned(rows[0])
        return outputs

    def _batch(self, examples: Examples) -> Batch:
        """A batch as the core sees it; ids that are new get rows."""
        inputs, keys = named(self.model, examples.inputs)
        rows = tuple(self._admit(t, wanted) for t, wanted in enumerate(keys))
        return Batch(tuple(inputs), rows, examples.labels.to(self.model.dtype).unsqueeze(0))

    def _admit(self, table: int, keys: Tensor) -> Tensor:
        """The rows of keys; new ones get theirs, in place of the longest unused if need be."""
        row, admitted = self.tables[table].admit(keys, self.aggregations)
        given_up = torch.tensor([a.row for a in admitted if a.before is not None], dtype=torch.long)
        for held in self.held.values():
            held.drop(table, given_up)
        return row

    def _outputs(self, fleet: ModelState, inputs: Inputs) -> Tensor:
        """Outputs [1, B] of a model; ids without a row predict from where a row of theirs would start."""
        places, keys = named(self.model, inputs)
        rows = [
            Wanted.of(wanted, table.rows(wanted), table.start).values(storage.value[0])
            for table, storage, wanted in zip(self.tables, fleet.tables, keys, strict=True)
        ]
        return self.gradients.outputs(fleet.dense, rows, fleet.buffers, places)

    def _rng(self, purpose: str) -> random.Random:
        """Randomness for one purpose at this aggregation, the same after a restart."""
        return random.Random(f"{self.seed}/{self.name}/{self.aggregations}/{purpose}")
