"""A span: the batches that edges predict and train on between two aggregations, all edges side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.state import ModelState, TableState
from alphaedge.simulation.batches import Batches

BATCHES_AT_ONCE: Final = 256  # that are looked up in one call; more falls out of the cache


@final
class Plan(NamedTuple):
    """The batches that a model predicts and trains on, column by column, -1 for none; and whose batches they are.

    ahead: of the last so many columns, the batches wait for the mix (``Method.train_ahead``).
    """

    model: int
    edge: int
    predicted: list[int]
    trained: list[int]
    ahead: int = 0

    def parts(self) -> "tuple[Plan, Plan]":
        """What comes before the batches that wait for the mix, and what is ahead of it."""
        cut = len(self.predicted) - self.ahead
        early = self._replace(predicted=self.predicted[:cut], trained=self.trained[:cut], ahead=0)
        return early, self._replace(predicted=self.predicted[cut:], trained=self.trained[cut:])


@final
@dataclass(frozen=True)
class TrainingSpan:
    """For k models and S columns, the batch that each predicts and the batch it trains on, -1 for none.

    Columns run in order; in a column a model predicts first. models: places in the state. edges: whose batches.
    """

    models: Tensor  # [k]
    edges: Tensor  # [k]
    predicted: Tensor  # [k, S]
    trained: Tensor  # [k, S]

    @classmethod
    def of(cls, plans: Sequence[Plan], device: torch.device | str = "cpu") -> "TrainingSpan":
        """From the plan of each model; shorter ones are filled up at the end."""
        width = max(len(plan.predicted) for plan in plans)
        predicted, trained = (
            torch.tensor([batches + [-1] * (width - len(batches)) for batches in column], device=device)
            for column in zip(*((plan.predicted, plan.trained) for plan in plans), strict=True)
        )
        models, edges = torch.tensor([(plan.model, plan.edge) for plan in plans], device=device).unbind(1)
        return cls(models.contiguous(), edges.contiguous(), predicted, trained)


@torch.inference_mode()
def run_span(
    state: ModelState, span: TrainingSpan, batches: Batches, gradients: Gradients, online: Online, *, same_pass: bool
) -> Tensor:
    """Run a span in place and return the outputs [k, S, B] of predicted batches (NaN elsewhere).

    With ``same_pass`` a batch that is predicted and trained on in one column costs one forward pass; right only
    where the module's outputs do not depend on training mode.
    """
    part = state.select(span.models)
    rule = online.for_rows
    compact = None if rule.lazy_rows else WorkingSet(part, span, batches, rule)
    k, width = span.predicted.shape
    shared = (span.predicted >= 0) & (span.predicted == span.trained) & same_pass
    # Which batch each model predicts and trains on, [S, 2, k]: in a column, predictions come first.
    numbers = torch.stack([span.predicted.masked_fill(shared, -1), span.trained]).permute(2, 0, 1)
    found = []
    focus = _Focus(part)
    for places, batch, learning in _in_turn(numbers, span.edges, batches):
        if compact:
            batch = compact.renumber(batch, places)
        if learning:
            found.append(learn(focus.on(places), batch, gradients, online)[0])
        else:
            found.append(predict(focus.models(places), batch, gradients))
    focus.write()
    if compact:
        compact.finish()
    state.write(span.models, part)
    noted = numbers >= 0
    noted[:, 1] &= shared.T
    column, _, place = noted.nonzero(as_tuple=True)
    outputs = found[0].new_full((k, width, found[0].shape[1]), torch.nan)
    outputs[place, column] = torch.cat(found)[noted[numbers >= 0]]
    return outputs


def _in_turn(numbers: Tensor, edges: Tensor, batches: Batches) -> Iterator[tuple[Tensor, Batch, bool]]:
    """The models that do something, with their batches, and whether they learn; for each place of [S, 2, k]."""
    for some in torch.split(numbers, max(1, BATCHES_AT_ONCE // len(edges))):
        chosen = some >= 0
        place = chosen.nonzero()[:, 2]
        counts = chosen.sum(2).flatten().tolist()
        parts = batches.get(edges[place], some[chosen]).split(counts)
        for turn, (places, batch) in enumerate(zip(torch.split_with_sizes(place, counts), parts, strict=True)):
            if counts[turn]:
                yield places, batch, turn % 2 == 1


@final
class _Focus:
    """The models of a span that learn in a column. Often they are those of the column before, and stay cut out."""

    def __init__(self, part: ModelState) -> None:
        self._part = part
        self._cut: tuple[Tensor, ModelState] | None = None

    def on(self, places: Tensor) -> ModelState:
        """Those in some places, to learn."""
        if not self._is_cut(places):
            self.write()
            if len(places) == len(self._part):
                return self._part
            self._cut = places, self._part.select(places)
        assert self._cut is not None
        return self._cut[1]

    def models(self, places: Tensor) -> ModelState:
        """Those in some places, to predict."""
        if self._is_cut(places):
            return self.on(places)
        self.write()
        return self._part if len(places) == len(self._part) else self._part.select_models(places)

    def write(self) -> None:
        """Write what has been learned back into the whole."""
        if self._cut is not None:
            self._part.write(*self._cut)
            self._cut = None

    def _is_cut(self, places: Tensor) -> bool:
        return self._cut is not None and torch.equal(self._cut[0], places)


@final
class WorkingSet:
    """The id rows that a span names, taken out of the tables while it runs.

    Dense Adam moves every row at every step. During a span that is done to the named rows alone; all others have
    gradient zero throughout, and ``Optimizer.coast`` moves them by the whole span at once when it is over.
    """

    def __init__(self, part: ModelState, span: TrainingSpan, batches: Batches, optimizer: Optimizer) -> None:
        self._part, self._optimizer, self._tables = part, optimizer, part.tables
        self._before = part.steps.clone()
        numbers = torch.cat([span.predicted, span.trained], dim=1)
        k, columns = numbers.shape
        named = batches.rows(span.edges.repeat_interleave(columns), numbers.clamp(min=0).flatten())
        self._rows, self._place, working = [], [], []
        for table, rows in zip(part.tables, named, strict=True):
            rows = torch.where(numbers.flatten().unsqueeze(1) >= 0, rows, table.scratch).view(k, -1)
            taken = rows.new_zeros(k, table.value.shape[1], dtype=torch.bool).scatter_(1, rows, True)
            place = taken.cumsum(1) - 1
            size = int(taken.sum(1).max())
            owner, row = taken.nonzero(as_tuple=True)
            mine = rows.new_full((k, size + 1), table.scratch).index_put_((owner, place[owner, row]), row)
            flat = table.flat(mine)
            working.append(TableState(table.take(flat), torch.arange(k, device=rows.device), table.width))
            self._rows.append(flat)
            self._place.append(torch.where(taken, place, size))
        part.tables = working

    def renumber(self, batch: Batch, edges: Tensor) -> Batch:
        """A batch of some of the edges, with its rows as places in the working set."""
        rows = tuple(place[edges].gather(1, r) for place, r in zip(self._place, batch.rows, strict=True))
        return replace(batch, rows=rows)

    def finish(self) -> None:
        """Let the rows that the span did not name coast, and put the working set back."""
        steps = self._part.steps - self._before
        for table, working, flat, place in zip(self._tables, self._part.tables, self._rows, self._place, strict=True):
            outside = (place == working.value.shape[1] - 1) & table.v[table.edges].any(-1)
            owner, row = outside.nonzero(as_tuple=True)
            other = table.edges[owner] * table.value.shape[1] + row
            storage = table.storage.view(3, -1, table.storage.shape[-1])
            coasting = storage.index_select(1, other)
            parameters = table.parameters(coasting)
            value, m, v = parameters.unbind(0)
            self._optimizer.coast(value, m, v, self._before, steps, owner)
            coasting[..., : table.width] = parameters
            storage.index_copy_(1, other, coasting)
            table.put(flat, working.storage)
            table.storage[:, :, -1] = 0  # the scratch row stays clean
        self._part.tables = self._tables
