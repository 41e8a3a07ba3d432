"""Cold start: rows of ids that are new here and known to peers.

An id that somebody asks a prediction for, and that has no row yet, is asked for at the neighbours; what they have of it
becomes its row here, before the first outcome comes. What peers sent is no part of the journal, so each adoption is
written down, with the moment in the learner's life at which it happened: whoever replays the journal adopts it again
at that moment.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.edge.learning.exchange import PulledModel

MOST: Final = 1000  # ids of a table that are asked for at once
REMEMBERED: Final = 100_000  # ids that were asked for and are not asked for again soon
AGAIN: Final = 60.0  # seconds


class Adopted(NamedTuple):
    """Rows [C, width] that keys [C] of a table start from."""

    table: int
    keys: Tensor
    rows: Tensor


def blend(weights: Mapping[str, float], pulls: Mapping[str, PulledModel]) -> list[Adopted]:
    """For each id that somebody knows the mean of what peers have, by their weights."""
    found = []
    for t in range(len(next(iter(pulls.values())).keys) if pulls else 0):
        every = torch.from_numpy(np.unique(torch.cat([pull.keys[t] for pull in pulls.values()]).numpy()))
        width = next(iter(pulls.values())).rows[t].shape[1]
        total, weight = (
            torch.zeros(len(every), width, dtype=torch.float64),
            torch.zeros(len(every), dtype=torch.float64),
        )
        for peer, pull in pulls.items():
            at = torch.searchsorted(every, pull.keys[t])
            total[at] += weights[peer] * pull.rows[t].double()
            weight[at] += weights[peer]
        known = weight > 0
        if known.any():
            found.append(Adopted(t, every[known], total[known] / weight[known].unsqueeze(1)))
    return found


@final
class NewIds:
    """Which ids to ask peers for: new ones, each once in a while, so that nobody can make an edge ask without end."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[int, int], float] = OrderedDict()

    def pick(self, unknown: Sequence[Iterable[int]], now: float) -> list[Tensor]:
        """Of the keys without a row, by table, those to ask for now."""
        found = []
        for t, keys in enumerate(unknown):
            picked = [k for k in dict.fromkeys(keys) if now - self._asked.get((t, k), -AGAIN) >= AGAIN][:MOST]
            for key in picked:
                self._asked[t, key] = now
                self._asked.move_to_end((t, key))
            found.append(torch.tensor(picked, dtype=torch.long))
        while len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        return found


@final
class AdoptionLog:
    """Adoptions since the last checkpoint, on disk before they count. schema: of the model that they are for."""

    def __init__(self, path: Path, schema: str) -> None:
        self._schema = schema
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.execute(
            "create table if not exists adopted (schema text, aggregations integer, lesson integer, place integer,"
            " keys blob, rows blob) strict"
        )

    def note(self, moment: tuple[int, int], adopted: Adopted) -> None:
        """Write an adoption down. moment: aggregations so far, and the last lesson learned."""
        blobs = [x.numpy().tobytes() for x in (adopted.keys, adopted.rows)]
        self._db.execute(
            "insert into adopted values (?, ?, ?, ?, ?, ?)", (self._schema, *moment, adopted.table, *blobs)
        )

    def at(self, moment: tuple[int, int]) -> list[Adopted]:
        """What was adopted at a moment, in order."""
        text = (
            "select place, keys, rows from adopted where schema = ? and aggregations = ? and lesson = ? order by rowid"
        )
        found = []
        for place, keys, rows in self._db.execute(text, (self._schema, *moment)):
            named = torch.from_numpy(np.frombuffer(keys, np.int64).copy())
            values = torch.from_numpy(np.frombuffer(rows, np.float64).copy()).view(len(named), -1)
            found.append(Adopted(place, named, values))
        return found

    def forget(self, aggregations: int) -> None:
        """Drop what a checkpoint after so many aggregations holds."""
        self._db.execute("delete from adopted where schema = ? and aggregations < ?", (self._schema, aggregations))
