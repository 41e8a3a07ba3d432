"""What each user adds to a private step, computed once more: plainly, and by none of the code that is audited.

The auditor knows every event but not which canaries were in. So it knows what all others add, and what each canary
would. Everything is in units of the noise: what a step tells is a sum of these vectors plus standard normal numbers.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.func import grad, vmap

from alphaedge.core.batch import Batch
from alphaedge.core.labels import LABELS, deviations
from alphaedge.core.model import Model
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.statistics import LARGEST, MEMORY
from alphaedge.core.privacy.tallies import MAX_LABEL
from alphaedge.core.state import ModelState
from alphaedge.core.tally import COLUMNS

BETA1 = 0.9  # of the released model's Adam


@final
@dataclass(frozen=True)
class Step:
    """What a private step tells, or what somebody adds to it: numbers [..., size] of each part, not yet in one row.

    rows, tallies: per released table [..., C, width] and [..., C, 2], of the rows that the lot names.
    """

    dense: Tensor
    rows: tuple[Tensor, ...]
    tallies: tuple[Tensor, ...]
    statistics: Tensor

    def joined(self, mechanism: Mechanism, visible: tuple[Tensor, ...]) -> Tensor:
        """All that is visible in one row [..., size], in units of the noise. visible: per released table [C]."""
        parts = [self.dense / mechanism.gradient_noise]
        for rows, tallies, seen in zip(self.rows, self.tallies, visible, strict=True):
            parts.append((rows[..., seen, :] / mechanism.gradient_noise).flatten(self.dense.dim() - 1))
            parts.append((tallies[..., seen, :] / mechanism.tally_noise).flatten(self.dense.dim() - 1))
        if mechanism.statistics_noise:
            parts.append(self.statistics / mechanism.statistics_noise)
        return torch.cat(parts, dim=-1)


def added(
    model: Model, norms: list[str], models: ModelState, events: Batch, units: Tensor, mechanism: Mechanism
) -> Step:
    """What each of U users adds to the step of one edge on a lot; units [L]: whose each event is, from 0 on."""
    count = int(units.max()) + 1
    dense, rows = _gradients(model, models, events)
    sums = dense.new_zeros(count, dense.shape[1]).index_add_(0, units, dense)
    by_row, tallies = [], []
    changes = model.changes(models.buffers, events.inputs, events.labels)[0]
    labels = torch.zeros_like(changes)
    if LABELS in models.buffers:
        labels = deviations(models.buffers[LABELS], changes.unsqueeze(0))[0].clamp(-MAX_LABEL, MAX_LABEL)
    one = torch.stack([torch.ones_like(labels), labels], dim=1)
    for t in mechanism.tables:
        places = torch.stack([events.inputs[f][0] for f in model.tables[t].fields], dim=1)  # [L, F]
        here = (units.unsqueeze(1).expand_as(places), places)
        named = dense.new_zeros(count, events.rows[t].shape[1], rows[t].shape[2])
        by_row.append(named.index_put_(here, rows[t], accumulate=True))
        counted = dense.new_zeros(count, events.rows[t].shape[1], COLUMNS)
        tallies.append(counted.index_put_(here, one.unsqueeze(1).expand(*places.shape, 2), accumulate=True))
    numbers = torch.cat([_given_to_norms(model, norms, models, events), changes.unsqueeze(1)], dim=1)
    normal = _normal(numbers, *_scales(norms, models))
    off = torch.cat([normal, normal.square() - 1], dim=1).nan_to_num(nan=0.0)
    moved = off.new_zeros(count, off.shape[1]).index_add_(0, units, off)
    length = _length([sums, *by_row])
    at = [c.unsqueeze(1) for c in (_factor(length, mechanism.clip), _factor(_length(tallies), mechanism.tally_clip))]
    return Step(
        sums * at[0],
        tuple(x * at[0].unsqueeze(2) for x in by_row),
        tuple(x * at[1].unsqueeze(2) for x in tallies),
        moved * _factor(_length([moved]), mechanism.statistics_clip).unsqueeze(1),
    )


def told(
    norms: list[str], before: ModelState, after: ModelState, events: Batch, mechanism: Mechanism, tallied: list[bool]
) -> Step:
    """What the step of one edge has told: the sums with their noise, computed back from what the released model became.

    Adam is undone by its first moments, which the edge does not publish. So this is more than a peer has.
    """
    size = events.labels.shape[1]

    def undone(old: Tensor, new: Tensor) -> Tensor:
        return (new - BETA1 * old) / (1 - BETA1) * size

    rows, tallies = [], []
    for place, t in enumerate(mechanism.tables):
        named, width = events.rows[t][0], before.tables[t].width
        rows.append(undone(before.tables[t].m[0, named, :width], after.tables[t].m[0, named, :width]))
        change = after.tables[t].value[0, named] - before.tables[t].value[0, named]
        counts = change[:, width : width + COLUMNS] if tallied[place] else change.new_zeros(len(named), COLUMNS)
        tallies.append(counts)
    mean, variance = _scales(norms, before)
    moved, widened = _scales(norms, after)
    off = torch.cat([(moved - mean) * variance.rsqrt(), widened / variance - 1]) * MEMORY * size
    return Step(undone(before.dense_m[0], after.dense_m[0]), tuple(rows), tuple(tallies), off)


def _gradients(model: Model, models: ModelState, events: Batch) -> tuple[Tensor, list[Tensor]]:
    """The gradient of each event of one edge by the dense part [L, D], and by its own rows, per table [L, F, width]."""
    model.module.train(False)
    rows = [t.gather(t.flat(r))[0] for t, r in zip(models.tables, events.rows, strict=True)]
    inputs = [x[0] for x in model.told([r.unsqueeze(0) for r in rows], events.inputs)]
    own = []
    for table, some in zip(model.tables, rows, strict=True):
        own.append(torch.stack([some[inputs[f], : table.width] for f in table.fields], dim=1))
        for number, f in enumerate(table.fields):
            inputs[f] = torch.full_like(inputs[f], number)
    buffers = {name: b[0] for name, b in models.buffers.items()}

    def loss(dense: Tensor, rows: list[Tensor], inputs: list[Tensor], label: Tensor) -> Tensor:
        outputs = model.forward(model.unpack(dense, rows), dict(buffers), [x[None] for x in inputs])
        return model.loss.function(outputs, label[None])

    each = vmap(grad(loss, argnums=(0, 1)), in_dims=(None, 0, 0, 0))
    dense, by_rows = each(models.dense[0], own, inputs, events.labels[0])
    return dense.nan_to_num(0.0, 0.0, 0.0), [r.nan_to_num(0.0, 0.0, 0.0) for r in by_rows]


def _given_to_norms(model: Model, norms: list[str], models: ModelState, events: Batch) -> Tensor:
    """The numbers that layers with running statistics are given, [L, F]."""
    seen: list[Tensor] = []
    modules = dict(model.module.named_modules())
    hooks = [modules[name].register_forward_pre_hook(lambda _, args: seen.append(args[0])) for name in norms]
    rows = [t.gather(t.flat(r))[0] for t, r in zip(models.tables, events.rows, strict=True)]
    widths = [r[:, : t.width] for r, t in zip(rows, model.tables, strict=True)]
    inputs = [x[0] for x in model.told([r.unsqueeze(0) for r in rows], events.inputs)]
    model.module.train(False)
    with torch.no_grad():
        model.forward(model.unpack(models.dense[0], widths), {n: b[0] for n, b in models.buffers.items()}, inputs)
    for hook in hooks:
        hook.remove()
    return torch.cat(seen, dim=1) if seen else events.labels.new_zeros(events.labels.shape[1], 0)


def _scales(norms: list[str], models: ModelState) -> tuple[Tensor, Tensor]:
    """Running means and variances, and those of the labels last."""
    labels = models.buffers.get(LABELS)
    known = labels[0] if labels is not None else models.dense.new_tensor([1.0, 0.0, 1.0])
    means = [models.buffers[f"{name}.mean".lstrip(".")][0] for name in norms]
    variances = [models.buffers[f"{name}.variance".lstrip(".")][0] for name in norms]
    return torch.cat([*means, known[1:2]]), torch.cat([*variances, known[2:3]])


def _normal(numbers: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return ((numbers - mean) * variance.rsqrt()).clamp(-LARGEST, LARGEST)


def _length(parts: list[Tensor]) -> Tensor:
    """The length of each unit's whole vector, in double precision."""
    squares = [part.double().flatten(1).square().sum(1) for part in parts]
    return torch.stack(squares).sum(0).sqrt() if squares else torch.zeros(0)


def _factor(length: Tensor, clip: float) -> Tensor:
    if not len(length):
        return torch.ones(1)
    return (clip / length.clamp(min=1e-12)).clamp(max=1).float()
