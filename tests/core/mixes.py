"""Edges about to mix: their models, the models they hold of peers, and the batch that they weigh them on."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from alphaedge.core.aggregation import Aggregation, HeldModels, Mixing, PeerMemory, Weights, shares_of
from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients, Stacked
from alphaedge.core.model import Model
from alphaedge.core.state import ModelState

from .zoo import ZOO, batch_of

KINDS = ["mlp", "deepfm", "two tables"]


@dataclass(frozen=True)
class AsWeighed:
    """Leaves the weights as they are and takes the weighted mean."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return weights

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.weighted_mean(shares)


def fresh(rule: Aggregation, raw: Tensor) -> Weights:
    """Raw weights with the rule's numbers at their start."""
    return Weights(raw, {name: torch.full_like(raw, start) for name, start in rule.memory.numbers.items()})


class MixCase(NamedTuple):
    """g edges about to mix, and the batch that they learn weights on (raw and as the core has it)."""

    model: Model
    models: ModelState
    held: HeldModels
    inputs: list[Tensor]
    batch: Batch
    known: list[Tensor]

    def mix(
        self,
        rule: Aggregation,
        weights: Weights | Tensor | None = None,
        *,
        wanted: Sequence[Tensor] = (),
        records: Tensor | None = None,
        batches: Sequence[Batch] | None = None,
        gradients: Gradients | None = None,
        into: ModelState | None = None,
    ) -> tuple[ModelState, Weights]:
        """The models and the weights after weigh and mix; the case stays as it is, unless it mixes ``into`` a state."""
        models = copy.deepcopy(self.models) if into is None else into
        weights = self.ones() if weights is None else weights
        weights = weights if isinstance(weights, Weights) else fresh(rule, weights)
        mixing = self.mixing(models, records=records, batches=batches, gradients=gradients, wanted=wanted)
        after = rule.weigh(mixing, weights)
        rule.mix(mixing, shares_of(after.raw, mixing.present))
        return models, after

    def mixing(
        self,
        models: ModelState | None = None,
        *,
        records: Tensor | None = None,
        batches: Sequence[Batch] | None = None,
        gradients: Gradients | None = None,
        wanted: Sequence[Tensor] = (),
    ) -> Mixing:
        """What a rule sees."""
        return Mixing(
            self.models if models is None else models,
            self.held,
            self.ones() if records is None else records,
            batches or [self.batch],
            gradients or Stacked(self.model, trace=False),
            self.known,
            wanted,
        )

    def ones(self) -> Tensor:
        edges, peers = self.held.index.shape
        return torch.ones(edges, 1 + peers, dtype=self.model.dtype)

    def loss(self, edge: int, a: Tensor) -> Tensor:
        """The loss of an edge's mixture written out: every parameter of every model, by plain autograd."""
        there = self.held.present[edge].nonzero().flatten().tolist()
        shares = torch.cat([a[:1], a[1:][there]])
        shares = shares / shares.sum()
        peers = [int(self.held.index[edge, p]) for p in there]
        dense = shares[0] * self.models.dense[edge]
        for share, j in zip(shares[1:], peers, strict=True):
            dense = dense + share * self.held.dense[j]
        tables = []
        for t, table in enumerate(self.models.tables):
            mixed = shares[0] * table.value[edge]
            for share, j in zip(shares[1:], peers, strict=True):
                theirs = torch.where(self.held.has[t][j][:, None], self.held.tables[t][j], table.value[edge])
                mixed = mixed + share * theirs
            tables.append(mixed[:-1])
        values = self.model.unpack(dense, tables)
        names = [s.name for s in self.model.dense_layout] + [c.name for t in self.model.tables for c in t.slices]
        self.model.module.eval()
        parameters = dict(zip(names, values, strict=True))
        logits = functional_call(self.model.module, parameters, tuple(x[edge] for x in self.inputs))
        return nn.functional.binary_cross_entropy_with_logits(logits.reshape(-1), self.batch.labels[edge])


def mix_case(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0, edges: int = 3, peers: int = 4) -> MixCase:
    """Edges with models of their own, in which some peers are silent and have not trained all rows."""
    torch.manual_seed(seed)
    case, model = ZOO[kind], ZOO[kind].model(dtype)
    models, pool = (ModelState.start([model], [0] * n) for n in (edges, peers + 2))
    has = []
    for each in (models, pool):
        each.dense += 0.3 * torch.randn_like(each.dense)
        for table in each.tables:
            table.value[:, :-1] += 0.3 * torch.randn_like(table.value[:, :-1])
    for table in pool.tables:
        has.append(torch.rand(table.value.shape[:2]) < 0.6)
        has[-1][:, -1] = False
        table.value[~has[-1]] = 0
    index = torch.stack([torch.randperm(peers + 2)[:peers] for _ in range(edges)])
    present = torch.rand(edges, peers) < 0.7
    present[:, 0] = True
    held = HeldModels(pool.dense, tuple(t.value for t in pool.tables), tuple(has), {}, index, present)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in case.inputs(edges, 6)]
    labels = torch.randint(0, 2, (edges, 6)).to(dtype)
    known = [torch.rand(edges, t.value.shape[1]) < 0.7 for t in models.tables]
    batch = batch_of(inputs, labels, model)
    for mask, rows in zip(known, batch.rows, strict=True):
        mask[torch.arange(edges)[:, None], rows] = True
        mask[:, -1] = False
    return MixCase(model, models, held, inputs, batch, known)


def in_a_stack(case: MixCase) -> tuple[ModelState, ModelState, list[Tensor]]:
    """The three edges of a case as edges 4, 1 and 2 of six: all of them, their part, and the other edges' rows."""
    whole = ModelState.start([case.model], [0] * 6)
    for mine, table in zip(whole.tables, case.models.tables, strict=True):
        mine.value[[4, 1, 2]] = table.value
    whole.dense[[4, 1, 2]] = case.models.dense
    others = [t.value[[0, 3, 5]].clone() for t in whole.tables]
    return whole, whole.select(torch.tensor([4, 1, 2])), others
