"""What a live edge holds of the tallies of others: peers that it hears beside its neighbours (``core.hearing``)."""

from collections.abc import Collection, Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from alphaedge.core.hearing import Overheard
from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.publication import PulledModel


@final
class HeardTallies:
    """By peer, its tallies as of its publication that was pulled last, in the edge's own numbering of id rows."""

    def __init__(self, tables: Sequence[IdRows], tallied: Sequence[bool]) -> None:
        self._tables, self.columns = tables, [COLUMNS * one for one in tallied]
        self.held: dict[str, HeldModel] = {}

    def none(self) -> HeldModel:
        """The tallies of a peer of which none have come yet."""
        return HeldModel(torch.empty(0), self._tables, self.columns)

    def take(self, peer: str, pull: PulledModel) -> None:
        """Keep what was pulled from a peer."""
        self.held.setdefault(peer, self.none()).take(pull, self._tables)

    def keep(self, peers: Collection[str]) -> None:
        """Forget all peers but these."""
        self.held = {peer: held for peer, held in self.held.items() if peer in peers}

    def drop(self, table: int, rows: Tensor) -> None:
        """Clear rows that now belong to other ids."""
        for held in self.held.values():
            held.drop(table, rows)

    def overheard(self, others: Sequence[str], answered: Collection[str]) -> Overheard | None:
        """What is heard of others in a round, of those that have answered; None if nobody is heard."""
        if not others:
            return None
        there: Mapping[str, HeldModel] = {j: held for j, held in self.held.items() if j in answered}
        held = [there.get(j) or self.none() for j in others]
        for one in held:
            one.fit(self._tables)
        tallies = tuple(torch.stack([one.rows[t] for one in held]).unsqueeze(0) for t in range(len(self._tables)))
        return Overheard(tallies, [[one.number for one in held]], torch.tensor([[j in there for j in others]]))
