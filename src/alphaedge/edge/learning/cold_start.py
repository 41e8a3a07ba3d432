"""Cold start: the rows of new ids start from what peers know about them.

When a prediction names an id without a row, the edge asks its neighbours for theirs and adopts the weighted mean,
before the first label arrives. What peers send is not in the journal, so each adoption is logged with the moment at
which it happened; a replay of the journal adopts the same rows at the same moment.
"""

import math
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.core.hearing import add_up
from alphaedge.core.tally import possible
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.publication import PulledModel

MAX_IDS: Final = 1000  # of one table, asked for at once
MAX_REMEMBERED: Final = 100_000  # ids that are not asked for again soon
RETRY_SECONDS: Final = 60.0


class Adopted(NamedTuple):
    """Rows [C, ...] that keys [C] of a table start from: parameters, and the tallies that were heard."""

    table: int
    keys: Tensor
    rows: Tensor


def weighted_rows(
    weights: Mapping[str, float],
    pulls: Mapping[str, PulledModel],
    *,
    trust: Mapping[str, float] | None = None,
    usual: Sequence[float | None] = (),
    hearing: "Sequence[Hearing]" = (),
) -> list[Adopted]:
    """For each id that a peer knows, the mean of the peers' rows by their weights.

    trust: from 0 to 1 by peer, how far its row counts; the rest of its weight counts for a row of zeros.
    usual: per table, the usual length of a row here; a longer one is cut to it, so that no peer can steer all new ids.
        None if there are too few rows to say.
    hearing: per table, how tallies are added up, if rows have them after their parameters.
    """
    found = []
    for t in range(len(next(iter(pulls.values())).keys) if pulls else 0):
        every = torch.from_numpy(np.unique(torch.cat([pull.keys[t] for pull in pulls.values()]).numpy()))
        width = hearing[t].width if hearing else next(iter(pulls.values())).rows[t].shape[1]
        total, weight = (
            torch.zeros(len(every), width, dtype=torch.float64),
            torch.zeros(len(every), dtype=torch.float64),
        )
        for peer, pull in pulls.items():
            at = torch.searchsorted(every, pull.keys[t])
            believed = weights[peer] * (1.0 if trust is None else trust[peer])
            total[at] += believed * pull.rows[t][:, :width].double()
            weight[at] += weights[peer]
        known = weight > 0
        if known.any():
            rows = _cut(total[known] / weight[known].unsqueeze(1), usual[t] if usual else None)
            if hearing:
                rows = torch.cat([rows, hearing[t].add_up(every, pulls, t)[known]], dim=1)
            found.append(Adopted(t, every[known], rows))
    return found


def find_held(held: Mapping[str, HeldModel], keys: Sequence[Tensor]) -> dict[str, PulledModel]:
    """What peers have told of ids that are new here, by their keys per table, in models that are held already."""
    found = {}
    for peer, model in held.items():
        parts = [others.find(some) for others, some in zip(model.others, keys, strict=True)]
        if any(len(part.keys) for part in parts):
            named, rows = tuple(part.keys for part in parts), tuple(part.rows for part in parts)
            found[peer] = PulledModel(model.number, model.records, model.dense[:0], {}, named, rows)
    return found


class Hearing(NamedTuple):
    """How the tallies of one table are heard. width: of the parameters before them. own: events counted here.

    trust: from 0 to 1 by peer, how far its tallies are believed.
    """

    width: int
    own: float
    trust: Mapping[str, float]

    def add_up(self, keys: Tensor, pulls: Mapping[str, PulledModel], table: int) -> Tensor:
        """The tallies of keys, in ascending order, that peers have sent, [C, 2]; [C, 0] if they send none."""
        told = next(iter(pulls.values())).rows[table].shape[1] - self.width
        claims = torch.zeros(len(pulls), len(keys), told, dtype=torch.float64)
        for place, pull in enumerate(pulls.values()):
            claims[place, torch.searchsorted(keys, pull.keys[table])] = pull.rows[table][:, self.width :].double()
        if not told:
            return claims[0]
        trust = torch.tensor([[self.trust[peer] for peer in pulls]], dtype=torch.float64)
        own = torch.tensor([self.own], dtype=torch.float64)
        return add_up(possible(claims).unsqueeze(0), trust, own)[0]


def _cut(rows: Tensor, length: float | None) -> Tensor:
    if length is None:
        return rows
    scale: Tensor = length / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp(min=1e-12)
    return rows * scale.clamp(max=1.0)


@final
class NewIds:
    """Chooses the new ids to ask peers for, each at most once a minute: callers can't make an edge ask forever."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[int, int], float] = OrderedDict()

    def pick(self, unknown: Sequence[Iterable[int]], now: float) -> list[Tensor]:
        """Choose among the keys without a row, per table."""
        found = []
        for t, keys in enumerate(unknown):
            due = [k for k in dict.fromkeys(keys) if now >= self._asked.get((t, k), -math.inf) + RETRY_SECONDS]
            picked = due[:MAX_IDS]
            for key in picked:
                self._asked[t, key] = now
                self._asked.move_to_end((t, key))
            found.append(torch.tensor(picked, dtype=torch.long))
        while len(self._asked) > MAX_REMEMBERED:
            self._asked.popitem(last=False)
        return found


@final
class AdoptionLog:
    """Adoptions since the last checkpoint, on disk before they take effect. schema: of the model they belong to."""

    def __init__(self, path: Path, schema: str) -> None:
        self._schema = schema
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.execute(
            "create table if not exists adopted (schema text, aggregations integer, feedback integer, place integer,"
            " keys blob, rows blob) strict"
        )

    def append(self, moment: tuple[int, int], adopted: Adopted) -> None:
        """Log an adoption. moment: aggregations so far, and the number of the last feedback learned."""
        blobs = [x.numpy().tobytes() for x in (adopted.keys, adopted.rows)]
        self._db.execute(
            "insert into adopted values (?, ?, ?, ?, ?, ?)", (self._schema, *moment, adopted.table, *blobs)
        )

    def at(self, moment: tuple[int, int]) -> list[Adopted]:
        """The adoptions of a moment, in order."""
        text = (
            "select place, keys, rows from adopted "
            "where schema = ? and aggregations = ? and feedback = ? order by rowid"
        )
        found = []
        for place, keys, rows in self._db.execute(text, (self._schema, *moment)):
            named = torch.from_numpy(np.frombuffer(keys, np.int64).copy())
            values = torch.from_numpy(np.frombuffer(rows, np.float64).copy()).view(len(named), -1)
            found.append(Adopted(place, named, values))
        return found

    def forget(self, aggregations: int) -> None:
        """Drop what a checkpoint after so many aggregations contains."""
        self._db.execute("delete from adopted where schema = ? and aggregations < ?", (self._schema, aggregations))
