"""What each user adds to a private step, computed once more: plainly, and by none of the code that is audited.

The auditor knows every event but not which canaries were in. So it knows what all others add, and what each canary
would. Everything is in units of the noise: what a step tells is a sum of these vectors plus standard normal numbers.
"""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.func import grad, vmap

from alphaedge.core.batch import Batch
from alphaedge.core.labels import LABELS
from alphaedge.core.model import Model
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.statistics import LARGEST, MEMORY
from alphaedge.core.state import ModelState

BETA1: Final = 0.9  # of the released model's Adam


@final
@dataclass(frozen=True)
class Step:
    """What a private step tells, or what somebody adds to it: numbers [..., size] of its two parts.

    The third part, tallies, is told more seldom, and attacked in ``audit.tallies``.
    """

    dense: Tensor
    statistics: Tensor

    def joined(self, mechanism: Mechanism) -> Tensor:
        """Both parts in one row [..., size], in units of the noise."""
        parts = [self.dense / mechanism.gradient_noise]
        if mechanism.statistics_noise:
            parts.append(self.statistics / mechanism.statistics_noise)
        return torch.cat(parts, dim=-1)


def added(
    model: Model, norms: list[str], models: ModelState, events: Batch, units: Tensor, mechanism: Mechanism
) -> Step:
    """What each of U users adds to the step of one edge on a lot; units [L]: whose each event is, from 0 on."""
    count = int(units.max()) + 1
    dense = _clipped(_gradients(model, models, events), mechanism.clip)  # events first, then what users add
    sums = dense.new_zeros(count, dense.shape[1]).index_add_(0, units, dense)
    changes = model.changes(models.buffers, events.inputs, events.labels)[0]
    numbers = torch.cat([_given_to_norms(model, norms, models, events), changes.unsqueeze(1)], dim=1)
    mean, variance = _scales(norms, models)
    normal = ((numbers - mean) * variance.rsqrt()).clamp(-LARGEST, LARGEST)
    off = torch.cat([normal, normal.square() - 1], dim=1).nan_to_num(nan=0.0)
    moved = off.new_zeros(count, off.shape[1]).index_add_(0, units, off)
    return Step(_clipped(sums, mechanism.clip), _clipped(moved, mechanism.statistics_clip))


def told(norms: list[str], before: ModelState, after: ModelState, size: int) -> Step:
    """What the step of one edge has told: the sums with their noise, computed back from what the released model became.

    size: events of the lot. Adam is undone by its first moments, which the edge does not publish: more than a peer has.
    """
    dense = (after.dense_m[0] - BETA1 * before.dense_m[0]) / (1 - BETA1) * size
    mean, variance = _scales(norms, before)
    moved, widened = _scales(norms, after)
    return Step(dense, torch.cat([(moved - mean) * variance.rsqrt(), widened / variance - 1]) * MEMORY * size)


def _gradients(model: Model, models: ModelState, events: Batch) -> Tensor:
    """The gradient of each event of one edge by the dense part, [L, D]."""
    model.module.train(False)
    rows = [t.gather(t.flat(r))[0] for t, r in zip(models.tables, events.rows, strict=True)]
    inputs = [x[0] for x in model.told([r.unsqueeze(0) for r in rows], events.inputs)]
    parameters = [r[:, : table.width] for r, table in zip(rows, model.tables, strict=True)]
    buffers = {name: b[0] for name, b in models.buffers.items()}

    def loss(dense: Tensor, inputs: list[Tensor], label: Tensor) -> Tensor:
        outputs = model.forward(model.unpack(dense, parameters), dict(buffers), [x[None] for x in inputs])
        return model.loss.function(outputs, label[None])

    each: Tensor = vmap(grad(loss), in_dims=(None, 0, 0))(models.dense[0], inputs, events.labels[0])
    return each.nan_to_num(0.0, 0.0, 0.0)


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


def _clipped(sums: Tensor, clip: float) -> Tensor:
    """Vectors [U, size], none longer than ``clip``, by lengths in double precision."""
    lengths = sums.double().square().sum(1, keepdim=True).sqrt()
    return sums * (clip / lengths.clamp(min=1e-12)).clamp(max=1).to(sums)
