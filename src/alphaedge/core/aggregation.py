"""Step 2 of the method: aggregation, as far as every rule shares it.

    M_agg = (a_ii M_i + sum_j a_ij M_j) / (a_ii + sum_j a_ij)                              (paper, section III-B)

A rule (``core/rules``) says where the weights a come from: ``learned.py`` is the paper's. This file has what rules are
given (``Mixing``), what they return (``Weights``) and what the framework keeps for them (``PeerMemory``).

Everything is written relative to the edge's own model, X_j = M_j - M_i. The mixture is M_i + sum_j w_j X_j with
w = a / sum(a); a row that peer j has never trained has X_j = 0, that is, keeps its value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Protocol, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.objective import NamedRows, Objective, objective, probe_losses
from alphaedge.core.state import ModelState, TableState
from alphaedge.errors import check_number

# Below this sum the weights say nothing: the edge's own model stays.
SMALLEST_SUM: Final = 1e-6
MAX_RECORDS_RATIO: Final = 4.0  # the most records that a peer's claim counts for, as a multiple of the edge's own


@final
@dataclass(frozen=True)
class PeerMemory:
    """What the framework keeps of each peer for a rule: carried from round to round, checkpointed and restored.

    numbers: named numbers that the rule keeps of each model besides its raw weight, with their start values.
    start: raw weight of the edge's own model and of the first neighbours.
    newcomer: raw weight of a peer chosen later, as a share of the mean raw weight of the edge and the neighbours that
        stay.
    remember: whether a former neighbour that is chosen again takes up the weight it had.
    fade: how far a former neighbour's remembered weight moves towards a newcomer's at each selection, so that a peer
        that has changed is tried again.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    start: float = 1.0
    newcomer: float = 0.5
    remember: bool = True
    fade: float = 0.01

    def __post_init__(self) -> None:
        check_number("start", self.start, above=0)
        check_number("newcomer", self.newcomer, low=0)
        check_number("fade", self.fade, low=0, high=1)
        for name, start in self.numbers.items():
            check_number(f"numbers.{name}", start)


@final
@dataclass(frozen=True)
class Weights:
    """Raw weights of g edges, own model first, then P peers, and the rule's numbers for each: all [g, 1 + P]."""

    raw: Tensor
    numbers: Mapping[str, Tensor] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class HeldModels:
    """What g aggregating edges hold of their peers: a pool of S models, and who uses which.

    ``tables[t]`` is [S, rows + 1, width] in the numbering of the edge that uses it, with the peer's tallies after the
    parameters if they are shared; ``has[t]`` [S, rows + 1] says which of those rows the peer has trained; the others
    are zero. ``index`` [g, P] names pool models, ``present``
    [g, P] is False for a peer that did not answer: it takes no part (its place may name any model of the pool).
    """

    dense: Tensor
    tables: tuple[Tensor, ...]
    has: tuple[Tensor, ...]
    statistics: dict[str, Tensor]
    index: Tensor
    present: Tensor

    def without_rows(self) -> "HeldModels":
        """The same models, none of which has trained a row; tallies stay."""
        return replace(self, has=tuple(torch.zeros_like(has) for has in self.has))


class Aggregation(Protocol):
    """An aggregation rule: how g edges weigh the models they hold, and how they combine them.

    Implementations are values (frozen dataclasses), so that a method can be compared, copied and sent to another
    process. ``alphaedge.testing.check_aggregation`` runs the checks that the built-in rules pass. Rules are called in
    ``torch.inference_mode``: gradients come from ``Mixing.objectives``, not from autograd.
    """

    @property
    def uses_peers(self) -> bool:
        """Whether the rule reads peers' models at all; if not, nothing is pulled or selected."""
        ...

    @property
    def weight_batches(self) -> int:
        """Revealed batches that the rule wants to weigh the models on, at least 1.

        The mixed model does not train on them before the mix. At most half of the batches between two aggregations
        are taken.
        """
        ...

    @property
    def memory(self) -> PeerMemory:
        """What to keep of each peer from round to round."""
        ...

    def weigh(self, mixing: "Mixing", weights: Weights) -> Weights:
        """New raw weights [g, 1 + P], 0 or larger, from those of the last round; ``numbers`` as in ``memory``.

        A peer that is not present should keep its weight and numbers for its return.
        """
        ...

    def mix(self, mixing: "Mixing", shares: Tensor) -> None:
        """Combine the models in place, by shares [g, 1 + P] that sum to 1 and are 0 for absent peers."""
        ...


def take_part(present: Tensor) -> Tensor:
    """Which models take part, [g, 1 + P]: the edge's own, and the peers that are present."""
    return F.pad(present, (1, 0), value=True)


def shares_of(raw: Tensor, present: Tensor) -> Tensor:
    """Weights [g, 1 + P] normalised to sum 1 over the edge's own model and the peers that are present."""
    return normalise(raw * take_part(present))[0]


def normalise(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Shares, and the sum that they were divided by; if all weights vanish the edge's own model stays."""
    total = weights.sum(1, keepdim=True)
    vanished = total <= SMALLEST_SUM
    total = total.clamp(min=SMALLEST_SUM)
    w = (weights / total).masked_fill_(vanished, 0)
    w[:, :1] += vanished
    return w, total


def mixture(w: Tensor, own: Tensor, differences: Tensor) -> Tensor:
    """M_i + sum_j w_j X_j, [g, F], from shares [g, 1 + P]."""
    return torch.baddbmm(own.unsqueeze(1), w[:, None, 1:], differences).squeeze(1)


@final
@dataclass(frozen=True)
class Mixing:
    """One mix of g edges, as a rule sees it: their own models, the held ones, and the batches to weigh them on.

    models: of the g edges; a rule moves them by ``weighted_mean`` or ``coordinatewise``.
    records: [g, 1 + P], examples that each model has learned from, as its publication claims; own model first.
    known: per id table [g, rows + 1], the rows that each edge had when it pulled. Rows that only peers know stay out of
        the mix, but those in ``wanted`` are adopted from them (cold start).
    """

    models: ModelState
    held: HeldModels
    records: Tensor
    batches: Sequence[Batch]
    gradients: Gradients
    known: Sequence[Tensor]
    wanted: Sequence[Tensor] = ()

    @property
    def present(self) -> Tensor:
        """Which peers take part, [g, P]."""
        return self.held.present

    @cached_property
    def differences(self) -> Tensor:
        """X_j = M_j - M_i of the dense parts, [g, P, D]; 0 for a peer that is not present."""
        held = self.held
        peers = held.dense.index_select(0, held.index.flatten()).view(*held.index.shape, -1)
        differences = peers.sub_(self.models.dense.unsqueeze(1))
        if not bool(held.present.all()):
            differences.masked_fill_(~held.present.unsqueeze(2), 0)
        return differences

    @cached_property
    def objectives(self) -> list[Objective]:
        """The loss of a mixture on each batch, for rules that learn their weights by its gradient.

        Mixtures are of the models as they are when this is first read: before ``mix`` moves them.
        """
        named = self._named
        return [
            objective(self.models, self.differences, named, self.batches, number, self.gradients)
            for number in range(len(self.batches))
        ]

    def losses(self, share: float) -> Tensor:
        """The losses of M_i and of M_i + share X_j for every peer, summed over the batches: [g, 1 + P], own first."""
        return probe_losses(self.models, self.differences, self._named, self.batches, self.gradients, share)

    def among(self, present: Tensor, records: Tensor) -> "Mixing":
        """The same mix with fewer peers and other claims; it takes over what this one has computed of the models."""
        dense, named = self.differences, self._named
        if not torch.equal(present, self.present):
            gone = ~present.unsqueeze(2)
            dense = dense.masked_fill(gone, 0)
            named = named and replace(named, differences=named.differences.masked_fill(gone.unsqueeze(3), 0))
        left = replace(self, held=replace(self.held, present=present), records=records)
        vars(left).update(differences=dense, _named=named)  # in the place of computing them again
        return left

    @cached_property
    def _named(self) -> NamedRows | None:
        """The rows that the batches name; a peer's difference is 0 where it has not trained a row of the edge."""
        if not self.models.tables:
            return None
        held, own, peers, whole = self.held, list[Tensor](), list[Tensor](), list[Tensor]()
        for t, table in enumerate(self.models.tables):
            rows = torch.cat([batch.rows[t] for batch in self.batches], dim=1)  # [g, T * C]
            known = table.gather(table.flat(rows))
            mine = known[..., : table.width]
            place = held.index.unsqueeze(2) * held.tables[t].shape[1] + rows.unsqueeze(1)  # [g, P, T * C]
            theirs = F.embedding(place, held.tables[t].view(-1, held.tables[t].shape[2]))[..., : table.width]
            trained = held.has[t].view(-1).index_select(0, place.view(-1)).view(place.shape)
            counts = trained & held.present.unsqueeze(2) & self.known[t].gather(1, rows).unsqueeze(1)
            apart = (theirs - mine.unsqueeze(1)).masked_fill_(~counts.unsqueeze(3), 0)
            own.append(mine.reshape(len(rows), len(self.batches), -1))
            peers.append(apart.view(*held.index.shape, len(self.batches), -1))
            whole.append(known.view(len(rows), len(self.batches), -1, known.shape[2]))
        sizes = [(known.shape[2], table.width) for known, table in zip(whole, self.models.tables, strict=True)]
        return NamedRows(torch.cat(own, dim=2), torch.cat(peers, dim=3), whole, sizes)

    def weighted_mean(self, shares: Tensor) -> None:
        """Make each model the mean of all that take part, by their shares."""
        models, held = self.models, self.held
        models.dense = mixture(shares, models.dense, self.differences)
        for name, gaps in self._statistics().items():
            own = models.buffers[name]
            models.buffers[name] = own + torch.einsum("gp,gpf->gf", shares[:, 1:], gaps).view(own.shape)
        for t, table in enumerate(models.tables):
            wanted = self.wanted[t] if self.wanted else None
            _mean_rows(table, held.tables[t], held.has[t], held.index, shares, self.known[t], wanted)

    def coordinatewise(self, combine: Callable[[Tensor], Tensor]) -> None:
        """Make each number of each model what ``combine`` makes of that number in all models that have it.

        combine: maps [g, 1 + P, F] to [g, F], own model first; NaN stands where a model takes no part or has not
        trained the row, so ``lambda values: values.nanmedian(1).values`` is the median. Slower than
        ``weighted_mean``: every table is gathered whole.
        """
        models, held = self.models, self.held
        statistics = self._statistics()
        absent = ~take_part(held.present).unsqueeze(2)

        def combined(own: Tensor, differences: Tensor, missing: Tensor) -> Tensor:
            values = torch.cat([own.unsqueeze(1), own.unsqueeze(1) + differences], dim=1)
            return combine(values.masked_fill_(missing, torch.nan))

        models.dense = combined(models.dense, self.differences, absent)
        for name, gaps in statistics.items():
            own = models.buffers[name]
            models.buffers[name] = combined(own.view(len(own), -1), gaps, absent).view(own.shape)
        for t, table in enumerate(models.tables):
            known = self.known[t]
            theirs = held.has[t][held.index] & held.present.unsqueeze(2)  # [g, P, rows + 1]
            takes_part = (known | self.wanted[t] if self.wanted else known) & theirs.any(1)
            missing = ~torch.cat([known.unsqueeze(1), theirs], dim=1).unsqueeze(3)
            mine = table.value[table.edges, :, : table.width]
            differences = (held.tables[t][held.index][..., : table.width] - mine.unsqueeze(1)).flatten(2)
            width = mine.shape[-1]
            rows = combined(mine.flatten(1), differences, missing.expand(-1, -1, -1, width).flatten(2)).view(mine.shape)
            table.value[table.edges, :, : table.width] = torch.where(takes_part.unsqueeze(2), rows, mine)

    def _statistics(self) -> dict[str, Tensor]:
        """Differences of the running statistics that are mixed, by name [g, P, F]."""
        held, gaps = self.held, dict[str, Tensor]()
        for name, pool in held.statistics.items():
            own = self.models.buffers[name]
            gap = pool[held.index].view(*held.index.shape, -1) - own.view(len(own), 1, -1)
            gaps[name] = gap.masked_fill_(~held.present.unsqueeze(2), 0).nan_to_num_(nan=0.0)  # inf - inf: a constant
        return gaps


def _mean_rows(
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
    theirs = theirs.view(len(index), *pool.shape[1:])[..., : table.width]
    scale, keep = takes_part.to(w.dtype), 1 - total * takes_part
    if wanted is not None:
        adopted = takes_part & ~known
        scale[adopted], keep[adopted] = 1 / total[adopted], 0
    # In place and edge by edge: a stacked copy of whole tables costs more than the calls do.
    for place, edge in enumerate(table.edges.tolist()):
        parameters = table.value[edge, :, : table.width]
        parameters.mul_(keep[place].unsqueeze(1)).addcmul_(theirs[place], scale[place].unsqueeze(1))
