"""The released model of an edge in its checkpoints, and what becomes of it when the edge rolls back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import msgspec
import torch
from torch import Tensor

from alphaedge.core.privacy.accountant import windows_allowed
from alphaedge.core.privacy.ledger import Ledger
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.private_release import PrivateRelease
from alphaedge.edge.learning.state_tensors import load_state, state_tensors

WHO = "released"


@final
class PrivateHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not tensors. waiting: first and last number, and time, of the batches that wait for their lot.

    tables: released ones, by number. window, windows, period: of the ledger, whose windows have ``window_seconds``.
    """

    records: int
    spent: int
    exhausted: bool
    window: int
    windows: int
    period: int
    window_seconds: float
    tables: list[int]
    waiting: list[tuple[int, int, float]]


def header_of(private: PrivateRelease | None) -> PrivateHeader | None:
    """The part of a checkpoint's header."""
    if private is None:
        return None
    return PrivateHeader(
        records=private.records,
        spent=private.spent,
        exhausted=private.exhausted,
        window=private.ledger.window,
        windows=private.ledger.windows,
        period=private.ledger.period,
        window_seconds=private.privacy.window_seconds,
        tables=list(private.learning.mechanism.tables),
        waiting=[(examples.first, examples.last, examples.time) for examples in private.waiting],
    )


def private_tensors(private: PrivateRelease | None) -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    if private is None:
        return {}
    released = private.released
    found = {**state_tensors(WHO, private.models), f"{WHO}.scaled": released.scaled}
    for t, counts, there in zip(private.learning.mechanism.tables, released.counts, released.there, strict=True):
        found |= {f"{WHO}.{t}.counts": counts, f"{WHO}.{t}.there": there}
    for name, users in (("taken", private.ledger.taken), ("tallied", private.ledger.tallied)):
        found[f"ledger.{name}"] = torch.tensor([*users.items()], dtype=torch.long).view(-1, 2)
    for place, examples in enumerate(private.waiting):
        found |= {f"lot.{place}.{field}": x.clone() for field, x in enumerate(examples.inputs)}
        found[f"lot.{place}.labels"] = examples.labels.clone()
    return found


def load_private(learner: Learner, header: PrivateHeader | None, tensors: Mapping[str, Tensor]) -> None:
    """Restore the released model of a learner whose id tables are restored already.

    A state of an edge that had no privacy has nothing that may be published.
    """
    private = learner.private
    if private is None:
        return
    if header is None:
        withhold(learner)
        return
    load_state(WHO, private.models, tensors)
    released, tables = private.released, private.learning.mechanism.tables
    released.scaled = tensors[f"{WHO}.scaled"]
    for place, t in enumerate(tables):
        if t in header.tables:
            released.counts[place], released.there[place] = tensors[f"{WHO}.{t}.counts"], tensors[f"{WHO}.{t}.there"]
    for t, table in enumerate(learner.tables):
        if t not in tables:
            table.version[:], table.published[:] = 0, 0.0
    taken, tallied = (dict(tensors[f"ledger.{name}"].tolist()) for name in ("taken", "tallied"))
    window, privacy = header.window, private.privacy
    if window >= 0 and header.window_seconds != privacy.window_seconds:
        window = privacy.window(window * header.window_seconds)
    private.ledger = Ledger(window, header.windows, taken, header.period, tallied)
    allowed = windows_allowed(privacy)
    private.exhausted = header.exhausted and allowed is not None and header.windows >= allowed
    private.records, private.spent = header.records, header.spent
    fields = range(len(learner.model.fields))
    private.waiting = [
        Examples([tensors[f"lot.{place}.{f}"] for f in fields], tensors[f"lot.{place}.labels"], *about)
        for place, about in enumerate(header.waiting)
    ]


def withhold(learner: Learner) -> None:
    """Take back what a learner without a released model offers to peers; the released model starts from nothing.

    What rounding has left out of earlier publications is of the edge's own model, so it is dropped.
    """
    private = learner.private
    if private is None:
        return
    for table, state in zip(learner.tables, private.models.tables, strict=True):
        state.storage = table.untrained().storage
        table.version[:], table.published[:], table.residual[:] = 0, 0.0, 0.0
    learner.topology = {}
    learner.publication = replace(learner.publication, residual=learner.publication.residual[:0])
    if learner.publication.number:
        learner.publication = learner.snapshot(learner.publication.number)


def carry_over(found: Learner, bad: Learner) -> None:
    """Give an earlier state of an edge what its newest one has released: that was published, and stays so."""
    if found.private is None or bad.private is None:
        return
    private, newest = found.private, bad.private
    for t, (mine, theirs) in enumerate(zip(found.tables, bad.tables, strict=True)):
        keys = theirs.numbering.keys_by_row()
        found.admit(t, torch.tensor([keys[row] for row in theirs.numbering.rows_by_last_use()], dtype=torch.long))
        mine.version[:], mine.published[:] = 0, 0.0
        state = private.models.tables[t]
        state.storage = mine.untrained().storage
        rows = mine.rows(torch.tensor(keys, dtype=torch.long))
        there = torch.arange(len(keys))
        state.storage[:, :, rows] = newest.models.tables[t].storage[:, :, there]
        mine.version[rows], mine.published[rows] = theirs.version[there], theirs.published[there]
        if t in private.learning.mechanism.tables:
            place = private.learning.mechanism.tables.index(t)
            for whole, other in (
                (private.released.counts, newest.released.counts),
                (private.released.there, newest.released.there),
            ):
                whole[place] = other[place].new_zeros(1, mine.size + 1, *other[place].shape[2:])
                known = there < other[place].shape[1] - 1
                whole[place][:, rows[known]] = other[place][:, there[known]]
    models, last = private.models, newest.models
    models.dense, models.dense_m, models.dense_v, models.steps = last.dense, last.dense_m, last.dense_v, last.steps
    models.buffers, private.released.scaled = last.buffers, newest.released.scaled
    private.ledger, private.waiting = newest.ledger, newest.waiting
    private.records, private.spent, private.exhausted = newest.records, newest.spent, newest.exhausted
    found.publication, found.topology = bad.publication, {}
