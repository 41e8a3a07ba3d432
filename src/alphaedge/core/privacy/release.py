"""The released model: the only one that leaves an edge with privacy on. It is trained privately and never mixed.

A private step takes a **lot**, the events since the last one, and moves the released model by sums with noise:

    M <- M - Adam( ( sum_u clip(G_u) + N ) / events )            the dense part
    tally <- tally + sum_u clip(T_u) + N                         of every row of a released id table
    mean, variance <- by ( sum_u clip(Z_u) + N ) / events        running statistics of numbers and labels

Everything that a step reads besides the lot is public: the released model itself, which knows nothing but what earlier
steps have told. Rows of id tables stay at their public start, since noise would drown what a few events teach a row:
of an id, only the tally is told. It is told from the moment on at which the noisy count passes a threshold that no row
passes, but by chance of delta, by what one user does in a window. Every row has the same noise, whenever it was named.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.core.labels import LABELS, deviations
from alphaedge.core.privacy.clipping import clip_weights, lengths, weighted_sum
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import Noise, with_noise
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

    counts: per released table [n, rows + 1, 4], noisy tallies as they are, and what waits for noise.
    there: [n, rows + 1], how often noise went over each row; 0 if it was never named.
    scaled: [n], whether the first lot has taught scales.
    """

    models: ModelState
    counts: list[Tensor]
    there: list[Tensor]
    scaled: Tensor

    def select(self, edges: Tensor) -> "Released":
        """Those of the named edges; id tables are shared with this one."""
        counts, there = ([x[edges] for x in whole] for whole in (self.counts, self.there))
        return Released(self.models.select(edges), counts, there, self.scaled[edges])

    def write(self, edges: Tensor, part: "Released") -> None:
        """Write a part back that has moved (its id tables are shared already)."""
        self.models.write(edges, part.models)
        for mine, theirs in zip((*self.counts, *self.there), (*part.counts, *part.there), strict=True):
            mine[edges] = theirs
        self.scaled[edges] = part.scaled


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
        counts = [value.new_zeros(*value.shape[:2], 2 * COLUMNS) for value in tables]
        there = [value.new_zeros(value.shape[:2], dtype=torch.long) for value in tables]
        return Released(models, counts, there, torch.zeros_like(models.steps, dtype=torch.bool))

    def told(self, released: Released) -> list[Tensor]:
        """Which rows of each id table may leave, [n, rows + 1]."""
        values = [table.value for table in released.models.tables]
        found = [value.new_zeros(value.shape[:2], dtype=torch.bool) for value in values]
        for t, counts, there in zip(self.mechanism.tables, released.counts, released.there, strict=True):
            found[t] = self.mechanism.passes(counts[..., 0], there)
        return found

    def period(self, released: Released, edge: int) -> int:
        """How often noise has gone over an edge's tallies so far."""
        return int(released.models.steps[edge]) // self.mechanism.tally_every

    def lot_batches(self, released: Released, edge: int, usual: int) -> int:
        """Batches of an edge's next lot: ``usual``, but some more for the first, which teaches scales."""
        first = self.mechanism.scale_noise > 0 and not bool(released.scaled[edge])
        return max(usual, FIRST_LOT_BATCHES) if first else usual

    @torch.inference_mode()
    def step(self, released: Released, edges: Tensor, lot: Lot, noise: Noise) -> None:
        """One private step of some edges [k] on their lots, in place; the first lot of all of them, or of none."""
        if torch.equal(edges, torch.arange(len(released.models), device=edges.device)):
            self._step(released, lot, noise)
        else:
            part = released.select(edges)
            self._step(part, lot, noise)
            released.write(edges, part)

    def _step(self, released: Released, lot: Lot, noise: Noise) -> None:
        """One private step of all of these edges."""
        mechanism, model, models = self.mechanism, self.gradients.model, released.models
        found = self.gradients(models, lot.events)
        changes = model.changes(models.buffers, lot.events.inputs, lot.events.labels)
        numbers = (*found.numbers, changes.unsqueeze(2))
        if mechanism.scale_noise and not bool(released.scaled.any()):
            find_scales(models, self.gradients.norms, numbers, lot, mechanism, noise)
            released.scaled[:] = True
            return
        if mechanism.tables:
            self._count(released, lot, changes, noise)
        own = lengths(found)
        if not bool(torch.isfinite(own).all()):  # what is not finite shows in the length
            found = found.finite()
            own = lengths(found)
        weights = clip_weights(found, own, lot, mechanism.clip)
        total = weighted_sum(found, weights, models.dense.shape[1])
        if mechanism.scale_noise:
            move_statistics(models, self.gradients.norms, numbers, lot, mechanism, noise)
        models.steps += 1
        slope = with_noise(total, mechanism.gradient_noise, noise).div_(lot.size)
        Adam(self.rate).update(models.dense, models.dense_m, models.dense_v, slope, models.steps)

    def _show(self, released: Released) -> None:
        """Let the models know of rows what they may know."""
        for t, counts, there in zip(self.mechanism.tables, released.counts, released.there, strict=True):
            if self.gradients.model.tables[t].tallied:
                table, may = released.models.tables[t], self.mechanism.passes(counts[..., 0], there)
                table.value[table.edges, :, table.width : table.width + COLUMNS] = shown(counts, may)

    def _count(self, released: Released, lot: Lot, changes: Tensor, noise: Noise) -> None:
        """Add a lot to the tallies, before the model moves."""
        labels, steps, every = torch.zeros_like(changes), released.models.steps + 1, self.mechanism.tally_every
        if LABELS in released.models.buffers:
            labels = deviations(released.models.buffers[LABELS], changes).nan_to_num(nan=0.0)
        rows, times = lot.rows(self.gradients.model, self.mechanism.tables), steps // every * (steps % every == 0)
        add_tallies(released.counts, released.there, lot, labels, rows, times, self.mechanism, noise)
        if bool(times.any()):  # what waits for noise changes nothing of what may be seen
            self._show(released)
