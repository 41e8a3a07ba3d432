"""The hostile edges of a simulation: after each of their publications, the attack forges what others may pull."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from alphaedge.attacks.attack import Attack, Forgery, Scene
from alphaedge.core.compression import compress_dense, compress_rows
from alphaedge.simulation.publications import Publications

if TYPE_CHECKING:
    from alphaedge.simulation.world import World


@final
class Adversaries:
    """The attack, and what the hostile edges need for it.

    hostile: by run, the local numbers of the hostile edges. own: the numbers of the edges in this world. start: their
    dense parts at the start, [edges, D].
    """

    def __init__(self, attack: Attack, hostile: Sequence[Sequence[int]], n: int, own: range, start: Tensor) -> None:
        self._attack, self._hostile, self._n, self._own = attack, hostile, n, own
        everybody = {run * n + local for run, some in enumerate(hostile) for local in some}
        self._edges = {edge for edge, number in enumerate(own) if number in everybody}
        self._start = {edge: start[edge].clone() for edge in self._edges}
        self.first: dict[int, list[Tensor]] = {}  # by edge, its first publication: the dense part, then the tables

    def forge(self, world: "World", edges: Sequence[int]) -> None:
        """Forge the newest publications of those edges that are hostile: the rows that were published anew."""
        for edge in edges:
            if edge in self._edges:
                self._forge(world, edge)

    def _forge(self, world: "World", edge: int) -> None:
        published, number = world.published, int(world.published.number[edge])
        slot, records = number % published.depth, published.records
        if edge not in self.first:
            self.first[edge] = [part[slot, edge].clone() for part in (published.dense, *published.tables)]
        trained = [version[slot, edge] == number for version in published.version]
        if self._attack.claims_all_rows:
            trained = [torch.ones_like(rows) for rows in trained]
            for rows in trained:
                rows[-1] = False
        places = [rows.nonzero().squeeze(1) for rows in trained]
        widths = [table.width for table in world.models.tables]
        forgery = _published(published, slot, edge, places, widths)
        forgery.shares = dict(world.announced[self._own[edge]][-1][1])
        run, local = divmod(self._own[edge], self._n)
        rng = torch.Generator().manual_seed(world.rng(edge, "attack").getrandbits(60))
        victim = self._victim(world, edge, places, forgery)
        dense, *tables = self.first[edge]
        before = [table[p, :width] for table, p, width in zip(tables, places, widths, strict=True)]
        first = Forgery(dense, before, {}, forgery.records)
        accomplices = [other for other in self._hostile[run] if other != local]
        self._attack.forge(forgery, Scene(self._start[edge], number, first, victim, accomplices, rng))
        none = forgery.dense[:0]  # a forger adds nothing that was left out before
        published.dense[slot, edge] = compress_dense(forgery.dense, none, published.precision).published
        records[slot, edge] = forgery.records
        for name, value in forgery.statistics.items():
            published.statistics[name][slot, edge] = value
        forged = zip(forgery.rows, forgery.tallies, strict=True)
        targets = zip(published.tables, published.version, places, forged, widths, strict=True)
        for table, version, place, parts, width in targets:
            made = compress_rows(torch.cat(parts, dim=1), parts[0][:, :0], width, published.precision)
            table[slot, edge, place] = made.published
            version[slot, edge, place] = number
        world.announced[self._own[edge]][-1] = (world.moment[edge], dict(forgery.shares))

    def _victim(self, world: "World", edge: int, places: Sequence[Tensor], own: Forgery) -> Forgery | None:
        """The newest publication of an honest edge at this moment, the same edge each time."""
        run, local = divmod(self._own[edge], self._n)
        honest = [j for j in range(self._n) if j not in self._hostile[run]]
        if not honest:
            return None
        other = run * self._n + honest[local % len(honest)]
        number = world.newest_at(other, world.moment[edge])
        if not number or other not in self._own:  # in another shard; attacks that need a victim are not run in shards
            return None
        places = [rows[0, 0, place] for rows, place in zip(world.rows_at([edge], [[other]]), places, strict=True)]
        slot, other = number % world.published.depth, other - self._own.start
        theirs = _published(world.published, slot, other, places, [table.width for table in world.models.tables])
        for t, (version, place) in enumerate(zip(world.published.version, places, strict=True)):
            lacking = version[slot, other, place] == 0
            theirs.rows[t][lacking], theirs.tallies[t][lacking] = own.rows[t][lacking], own.tallies[t][lacking]
        return theirs


def _published(
    published: Publications, slot: int, edge: int, places: Sequence[Tensor], widths: Sequence[int]
) -> Forgery:
    rows = [table[slot, edge, place] for table, place in zip(published.tables, places, strict=True)]
    return Forgery(
        published.dense[slot, edge].clone(),
        [some[:, :width].clone() for some, width in zip(rows, widths, strict=True)],
        {name: pool[slot, edge].clone() for name, pool in published.statistics.items()},
        int(published.records[slot, edge]),
        tallies=[some[:, width:].clone() for some, width in zip(rows, widths, strict=True)],
    )
