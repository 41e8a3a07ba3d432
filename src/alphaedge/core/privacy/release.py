"""The released model: the only one that leaves an edge with privacy on. It is trained privately and never mixed.

A private step takes a **lot**, the events since the last one, and moves the released model by sums with noise:

    M <- M - Adam( ( sum_u clip(G_u) + N ) / events )            the dense part, and all rows of released tables
    tally <- tally + sum_u clip(T_u) + N                         of every row of these tables that was ever named
    mean, variance <- by ( sum_u clip(Z_u) + N ) / events        running statistics of numbers and labels

Everything that a step reads besides the lot is public: the released model itself, which knows nothing but what earlier
steps have told. A row of an id table gets noise in every step once it was named, whether the lot names it or not, so
which rows moved tells nothing. It is told from the moment on at which its noisy count passes a threshold that no row
passes, but by chance of delta, on the strength of one user alone. Rows of other tables stay at their public start.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.core.labels import LABELS, deviations
from alphaedge.core.privacy.clipping import clipped_sum, lengths, shrink
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import Noise, stacked
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.statistics import FIRST_LOT_BATCHES, find_scales, move_statistics, start_statistics
from alphaedge.core.privacy.tallies import add_tallies, shown
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.core.tally import COLUMNS


@final
@dataclass
class Released:
    """The released models of n edges.

    counts: per released table [n, rows + 1, 2], noisy tallies as they are. there: [n, rows + 1], private steps since
    each row was first named; 0 if it never was. scaled: [n], whether the first lot has taught scales.
    """

    models: ModelState
    counts: list[Tensor]
    there: list[Tensor]
    scaled: Tensor


@final
@dataclass(frozen=True)
class PrivateLearning:
    """How the released models of a fleet learn. rate: of their Adam."""

    gradients: PerExampleGradients
    mechanism: Mechanism
    rate: float

    def start(self, models: ModelState) -> Released:
        """Released models before anything was learned, from initial models, of which they get a copy."""
        models = models.copy()
        start_statistics(models, self.gradients.norms)
        tables = [models.tables[t].value for t in self.mechanism.tables]
        counts = [value.new_zeros(*value.shape[:2], COLUMNS) for value in tables]
        there = [value.new_zeros(value.shape[:2], dtype=torch.long) for value in tables]
        return Released(models, counts, there, torch.zeros_like(models.steps, dtype=torch.bool))

    def told(self, released: Released) -> list[Tensor]:
        """Which rows of each id table may leave, [n, rows + 1]."""
        values = [table.value for table in released.models.tables]
        found = [value.new_zeros(value.shape[:2], dtype=torch.bool) for value in values]
        for t, counts, there in zip(self.mechanism.tables, released.counts, released.there, strict=True):
            found[t] = self.mechanism.passes(counts[..., 0], there)
        return found

    def lot_batches(self, released: Released, edge: int, usual: int) -> int:
        """Batches of an edge's next lot: ``usual``, but some more for the first, which teaches scales."""
        first = self.mechanism.scale_noise > 0 and not bool(released.scaled[edge])
        return max(usual, FIRST_LOT_BATCHES) if first else usual

    @torch.inference_mode()
    def step(self, released: Released, edges: Tensor, lot: Lot, noise: Noise) -> None:
        """One private step of some edges [k] on their lots, in place; the first lot of all of them, or of none."""
        mechanism, model = self.mechanism, self.gradients.model
        models = released.models.select(edges)
        found = self.gradients(models, lot.events).finite()
        changes = model.changes(models.buffers, lot.events.inputs, lot.events.labels)
        numbers = (*found.numbers, changes.unsqueeze(2))
        if mechanism.scale_noise and not bool(released.scaled[edges].any()):
            find_scales(models, self.gradients.norms, numbers, lot, mechanism, noise)
            released.models.write(edges, models)
            released.scaled[edges] = True
            return
        rows, labels = lot.rows(model, mechanism.tables), torch.zeros_like(changes)
        if LABELS in models.buffers:
            labels = deviations(models.buffers[LABELS], changes).nan_to_num(nan=0.0)
        counts, there = ([x[edges] for x in whole] for whole in (released.counts, released.there))
        if mechanism.tables:
            add_tallies(counts, there, lot, labels, rows, mechanism, noise)
        weights = shrink(lengths(found, rows, mechanism.tables, lot), mechanism.clip) * lot.counts
        places = [models.tables[t].scratch + 1 for t in mechanism.tables]
        total = clipped_sum(found, rows, mechanism.tables, weights, size=models.dense.shape[1], places=places)
        if mechanism.scale_noise:
            move_statistics(models, self.gradients.norms, numbers, lot, mechanism, noise)
        rule = Adam(self.rate)
        models.steps += 1
        slope = (total.dense + mechanism.gradient_noise * stacked(noise, total.dense)) / lot.size
        rule.update(models.dense, models.dense_m, models.dense_v, slope, models.steps)
        for place, t in enumerate(mechanism.tables):
            table, width = models.tables[t], models.tables[t].width
            slope = (total.rows[place] + mechanism.gradient_noise * stacked(noise, total.rows[place])) / lot.size
            parameters = table.storage[:, table.edges, :, :width].contiguous()
            value, m, v = parameters.unbind(0)
            rule.update(value, m, v, slope * (there[place] > 0).unsqueeze(2), models.steps)
            table.storage[:, table.edges, :, :width] = parameters
            if model.tables[t].tallied:
                may = mechanism.passes(counts[place][..., 0], there[place])
                table.value[table.edges, :, width : width + COLUMNS] = shown(counts[place], may)
            released.counts[place][edges], released.there[place][edges] = counts[place], there[place]
        released.models.write(edges, models)
