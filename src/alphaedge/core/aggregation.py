"""Step 2 of the method: aggregation with learned weights.

    M_agg = (a_ii M_i + sum_j a_ij M_j) / (a_ii + sum_j a_ij)                              (paper, section III-B)

All models are frozen; only the K + 1 numbers a are active. They descend the loss of M_agg on a revealed batch for a
few Adam steps, starting from where the last aggregation left them. By the chain rule, with A = a_ii + sum_j a_ij,

    dL/da_ij = < dL/dM_agg , M_j - M_agg > / A

so one gradient of the mixture gives all K + 1, and no copy of a model enters autograd. Everything is written relative
to the own model, X_j = M_j - M_i: the mixture is M_i + sum_j w_j X_j with w = a / A, and a row that peer j has never
trained has X_j = 0, that is, keeps the own value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.optimizer import Adam
from alphaedge.core.state import ModelState, TableState
from alphaedge.errors import check_number

# Below this sum the weights say nothing: the own model stays.
SMALLEST_SUM: Final = 1e-6
# A model that claims to have learned from more than so many times the own records is not believed.
MOST: Final = 4.0


@final
@dataclass(frozen=True)
class Learned:
    """Weights learned by gradient descent. The paper's reading is ``Learned.paper()``; see docs/decisions.

    steps: gradient steps per aggregation.
    rate: Adam's rate for the weights. The paper's 0.001 moves a weight by at most 0.01 per aggregation.
    start: raw weight of the own model and of each first peer (only their ratio to ``rate`` matters).
    newcomer: raw weight of a peer chosen later, as a share of the mean raw weight of the edge and its neighbours.
    remember: whether a peer that is chosen again takes up the weight it had (the paper: only one that was down).
    fade: how far a former neighbour's remembered weight goes back to a newcomer's at each selection, so that an
        edge that has changed is tried again.
    batches: revealed batches gathered for one learning of weights, of which each step takes the next; the edge does
        not train on them before the mix. At most half of those between two aggregations are gathered.
    pull: how far weights go back, before each learning, to what the models have learned from (``pulled``).
    """

    steps: int = 10
    rate: float = 0.2
    start: float = 1.0
    newcomer: float = 0.5
    remember: bool = True
    fade: float = 0.01
    batches: int = 5
    pull: float = 0.5

    def __post_init__(self) -> None:
        check_number("steps", self.steps, low=1, whole=True)
        check_number("weight rate", self.rate, above=0)
        check_number("start", self.start, above=0)
        check_number("newcomer", self.newcomer, low=0)
        check_number("fade", self.fade, low=0, high=1)
        check_number("batches", self.batches, low=1, whole=True)
        check_number("pull", self.pull, low=0, high=1)

    @classmethod
    def paper(cls) -> "Learned":
        """The literal reading: rate 0.001 on one batch, newcomers at 0, nothing remembered of a replaced peer."""
        return cls(rate=0.001, newcomer=0.0, remember=False, batches=1, pull=0.0)


@final
@dataclass(frozen=True)
class ByRecords:
    """FedAvg's rule: each model weighs as many records as it had learned from when it was fetched."""


@final
@dataclass(frozen=True)
class Uniform:
    """Every model weighs the same."""


@final
@dataclass(frozen=True)
class Alone:
    """No aggregation."""


Aggregation = Learned | ByRecords | Uniform | Alone


@final
@dataclass
class Weights:
    """Raw weights of g edges, own first, then P peers, with Adam's state for each: all [g, 1 + P]."""

    raw: Tensor
    m: Tensor
    v: Tensor
    steps: Tensor

    @classmethod
    def fixed(cls, raw: Tensor) -> "Weights":
        """Weights that are not learned."""
        return cls(raw, torch.zeros_like(raw), torch.zeros_like(raw), torch.zeros_like(raw))


@final
@dataclass(frozen=True)
class HeldModels:
    """What g aggregating edges hold of their peers: a pool of S models, and who uses which.

    ``tables[t]`` is [S, rows + 1, width] in the numbering of the edge that uses it, ``has[t]`` [S, rows + 1] says
    which of those rows the peer has trained; the others are zero. ``index`` [g, P] names pool models, ``present``
    [g, P] is False for a peer that did not answer: it takes no part (its place may name any model of the pool).
    """

    dense: Tensor
    tables: tuple[Tensor, ...]
    has: tuple[Tensor, ...]
    statistics: dict[str, Tensor]
    index: Tensor
    present: Tensor


def shares(raw: Tensor, present: Tensor) -> Tensor:
    """Weights [g, 1 + P] normalised to sum 1 over the own model and the peers that are present."""
    return _normalised(raw * _taking(present))[0]


def _taking(present: Tensor) -> Tensor:
    return F.pad(present, (1, 0), value=True)


def _normalised(taking: Tensor) -> tuple[Tensor, Tensor]:
    """Shares, and the sum that they were divided by; if all weights vanish the own model stays."""
    total = taking.sum(1, keepdim=True)
    vanished = total <= SMALLEST_SUM
    total = total.clamp(min=SMALLEST_SUM)
    w = (taking / total).masked_fill_(vanished, 0)
    w[:, :1] += vanished
    return w, total


def pulled(weights: Weights, present: Tensor, records: Tensor, rule: Learned) -> Weights:
    """Weights before they are learned, drawn a part of the way to what each model has learned from, [g, 1 + P].

    Who is not known to be better or worse than another is worth as much as it has seen. The sum stays the same, and
    nobody counts for more than ``MOST`` times the own records, whatever it claims.
    """
    taking, own = _taking(present), records[:, :1].clamp(min=1)
    amount = torch.cat([own, records[:, 1:].minimum(own * MOST)], dim=1) * taking
    scale = (weights.raw * taking).sum(1, keepdim=True) / amount.sum(1, keepdim=True)
    raw = torch.where(taking, torch.lerp(weights.raw, amount * scale, rule.pull), weights.raw)
    return Weights(raw, weights.m, weights.v, weights.steps)


def weight_gradient(raw: Tensor, present: Tensor, differences: Sequence[Tensor], slope: Sequence[Tensor]) -> Tensor:
    """dL/da [g, 1 + P] from dL/dM_agg and X, both in parts: [g, F] and [g, P, F] (zero where a peer is absent)."""
    taking = _taking(present)
    return _gradient(*_normalised(raw * taking), differences, slope) * taking


def _gradient(w: Tensor, total: Tensor, differences: Sequence[Tensor], slope: Sequence[Tensor]) -> Tensor:
    # < dL/dM_agg, M_j - M_i >, which is 0 for the own model. In this order of factors bmm is 14 times faster.
    along = sum(
        torch.bmm(s.unsqueeze(1), x.transpose(1, 2)).squeeze(1) for x, s in zip(differences, slope, strict=True)
    )
    assert isinstance(along, Tensor)
    along = F.pad(along, (1, 0))
    return (along - (w * along).sum(1, keepdim=True)) / total


def mixture(w: Tensor, own: Tensor, differences: Tensor) -> Tensor:
    """M_i + sum_j w_j X_j, [g, F], from shares [g, 1 + P]."""
    return torch.baddbmm(own.unsqueeze(1), w[:, None, 1:], differences).squeeze(1)


@final
@dataclass(frozen=True)
class Objective:
    """The loss of a mixture on one batch: own model M_i and X_j = M_j - M_i in parts, as far as the batch needs them.

    ``own`` are [g, F], ``differences`` [g, P, F]; ``slope`` maps mixtures [g, F] to dL/dM_agg [g, F], part by part.
    """

    own: Sequence[Tensor]
    differences: Sequence[Tensor]
    slope: Callable[[list[Tensor]], Sequence[Tensor]]


def learn_weights(weights: Weights, present: Tensor, objectives: Sequence[Objective], rule: Learned) -> Weights:
    """A few gradient steps on the weights alone, one after the other on each of the gathered batches.

    A peer that is not present keeps its weight and its Adam state for its return.
    """
    taking = _taking(present)
    adam, moves = Adam(rate=rule.rate), taking.to(weights.raw.dtype)
    raw, m, v = weights.raw, weights.m.clone(), weights.v.clone()
    # Adam's bias corrections of all steps at once; a weight that takes no part keeps its count.
    counts = weights.steps + moves * torch.arange(1, rule.steps + 1, dtype=moves.dtype).view(-1, 1, 1)
    ahead = adam.rate * moves / (1 - adam.beta1**counts).clamp(min=1e-30)
    spread = (1 - adam.beta2**counts).clamp(min=1e-30).rsqrt()
    toward_m, toward_v = (1 - adam.beta1) * moves, (1 - adam.beta2) * moves
    for step in range(rule.steps):
        now = objectives[step % len(objectives)]
        w, total = _normalised(raw * taking)
        mixed = [mixture(w, mine, x) for mine, x in zip(now.own, now.differences, strict=True)]
        gradient = _gradient(w, total, now.differences, now.slope(mixed))
        m.lerp_(gradient, toward_m)
        v.lerp_(gradient * gradient, toward_v)
        raw = (raw - ahead[step] * m / (v.sqrt() * spread[step] + adam.eps)).clamp_(min=0)
    return Weights(raw, m, v, counts[-1])


def aggregate(
    fleet: ModelState,
    fetched: HeldModels,
    weights: Weights,
    rule: Aggregation,
    batches: Sequence[Batch],
    gradients: Gradients,
    known: Sequence[Tensor],
    wanted: Sequence[Tensor] = (),
) -> Weights:
    """One aggregation of g edges: learn the weights on ``batches`` (if the rule does), mix ``fleet`` in place.

    ``known[t]`` [g, rows + 1] are the rows that each edge has; rows that only peers know stay out of the mix, but
    those in ``wanted[t]`` are adopted from them (cold start). Returns the new raw weights.
    """
    if not bool(fetched.present.any()):
        return weights
    peers = fetched.dense.index_select(0, fetched.index.flatten()).view(*fetched.index.shape, -1)
    differences = peers.sub_(fleet.dense.unsqueeze(1))
    if not bool(fetched.present.all()):
        differences.masked_fill_(~fetched.present.unsqueeze(2), 0)
    if isinstance(rule, Learned):
        objectives = [_objective(fleet, fetched, batch, gradients, differences) for batch in batches]
        weights = learn_weights(weights, fetched.present, objectives, rule)
    w = shares(weights.raw, fetched.present)
    fleet.dense = mixture(w, fleet.dense, differences)
    for name, pool in fetched.statistics.items():
        own = fleet.buffers[name]
        gaps = pool[fetched.index].view(*fetched.index.shape, -1) - own.view(len(own), 1, -1)
        gaps = gaps.masked_fill_(~fetched.present.unsqueeze(2), 0).nan_to_num_(nan=0.0)  # inf - inf: a constant
        fleet.buffers[name] = own + torch.einsum("gp,gpf->gf", w[:, 1:], gaps).view(own.shape)
    for t, table in enumerate(fleet.tables):
        pool, has, adopt = fetched.tables[t], fetched.has[t], wanted[t] if wanted else None
        _mix_rows(table, pool, has, fetched.index, w, known[t], adopt)
    return weights


def _objective(
    fleet: ModelState, fetched: HeldModels, batch: Batch, gradients: Gradients, differences: Tensor
) -> Objective:
    """The loss on one batch by the dense part and the few rows that the batch names; no other row touches it."""
    own, peers, sizes = list[Tensor](), list[Tensor](), list[torch.Size]()
    for t, (table, rows) in enumerate(zip(fleet.tables, batch.rows, strict=True)):
        mine = table.gather(table.value, table.flat(rows))
        place = fetched.index.unsqueeze(2) * fetched.tables[t].shape[1] + rows.unsqueeze(1)  # [g, P, C]
        theirs = F.embedding(place, fetched.tables[t].view(-1, mine.shape[-1]))
        counts = fetched.has[t].view(-1).index_select(0, place.view(-1)).view(place.shape) & fetched.present.unsqueeze(
            2
        )
        own.append(mine.flatten(1))
        peers.append(theirs.sub_(mine.unsqueeze(1)).masked_fill_(~counts.unsqueeze(3), 0).flatten(2))
        sizes.append(mine.shape[1:])

    def slope(mixed: list[Tensor]) -> list[Tensor]:
        parts = torch.split_with_sizes(mixed[1], [size.numel() for size in sizes], dim=1) if sizes else ()
        rows = [part.reshape(len(part), *size) for part, size in zip(parts, sizes, strict=True)]
        found = gradients.gradient(mixed[0], rows, fleet.buffers, batch.inputs, batch.labels, training=False)
        return [found.dense, torch.cat([r.flatten(1) for r in found.rows], dim=1)] if sizes else [found.dense]

    if not sizes:
        return Objective([fleet.dense], [differences], slope)
    return Objective([fleet.dense, torch.cat(own, dim=1)], [differences, torch.cat(peers, dim=2)], slope)


def _mix_rows(
    table: TableState, pool: Tensor, has: Tensor, index: Tensor, w: Tensor, known: Tensor, wanted: Tensor | None
) -> None:
    """Mix the known rows of an id table in place, and adopt the wanted ones that only peers know.

    With h_j = 1 where peer j has trained the row: own (1 - sum_j w_j h_j) + sum_j w_j h_j row_j. The rows that a peer
    has not trained are zero in the pool, so the last sum is one pass over whole tables.
    """
    of_peers = w[:, None, 1:]
    held = has.index_select(0, index.flatten()).view(*index.shape, -1).to(w.dtype)
    total = torch.bmm(of_peers, held).squeeze(1)  # [g, rows + 1]
    takes_part = (known if wanted is None else known | wanted) & (total > 0)
    if not bool(takes_part.any()):
        return
    theirs = F.embedding_bag(index, pool.flatten(1), per_sample_weights=of_peers.squeeze(1), mode="sum")
    theirs = theirs.view(len(index), *pool.shape[1:])
    scale, keep = takes_part.to(w.dtype), 1 - total * takes_part
    if wanted is not None:
        adopted = takes_part & ~known
        scale[adopted], keep[adopted] = 1 / total[adopted], 0
    # In place and edge by edge: a stacked copy of whole tables costs more than the calls do.
    for place, edge in enumerate(table.edges.tolist()):
        table.value[edge].mul_(keep[place].unsqueeze(1)).addcmul_(theirs[place], scale[place].unsqueeze(1))
