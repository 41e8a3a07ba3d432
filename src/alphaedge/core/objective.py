"""The loss of mixtures on revealed batches: by the dense parts and the few id rows that the batches name.

No other row touches it. Own model M_i and X_j = M_j - M_i come in parts (``core.aggregation``): the dense part, and
the parameters of the named rows end to end, if the model has id tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.state import ModelState

EXAMPLES_AT_ONCE: Final = 8_192  # that models are run on in one call; what they make of more falls out of the cache


@final
@dataclass(frozen=True)
class Objective:
    """The loss of a mixture on one batch.

    ``own`` are [g, F], ``differences`` [g, P, F]; ``slope`` maps mixtures [g, F] to dL/dM_agg [g, F], part by part.
    """

    own: Sequence[Tensor]
    differences: Sequence[Tensor]
    slope: Callable[[list[Tensor]], Sequence[Tensor]]


@final
@dataclass(frozen=True)
class NamedRows:
    """The rows that T batches of g edges name, of all id tables.

    ``own`` [g, T, F] and ``differences`` [g, P, T, F] hold the parameters of all tables, ``sizes[t]`` = (C, width),
    ``known[t]`` [g, T, C, columns] the edge's own rows as they are, with their tallies.
    """

    own: Tensor
    differences: Tensor
    known: Sequence[Tensor]
    sizes: Sequence[tuple[int, int]]

    def cut(self, parameters: Tensor) -> list[Tensor]:
        """Parameters [..., F] as the rows of each table, [..., C, width]."""
        parts = torch.split_with_sizes(parameters, [rows * width for rows, width in self.sizes], dim=-1)
        return [part.view(*part.shape[:-1], *size) for part, size in zip(parts, self.sizes, strict=True)]

    def mixed(self, parameters: Tensor, batch: int) -> list[Tensor]:
        """Rows [g, C, columns] with the parameters [g, F] of a mixture. What is known of an id stays as it is."""
        found = []
        for rows, known in zip(self.cut(parameters), self.known, strict=True):
            tallies = known[:, batch, :, rows.shape[2] :]
            found.append(torch.cat([rows, tallies], dim=2) if tallies.shape[2] else rows)
        return found


def objective(
    models: ModelState,
    differences: Tensor,
    named: NamedRows | None,
    batches: Sequence[Batch],
    number: int,
    gradients: Gradients,
) -> Objective:
    """The loss of a mixture on one of the batches. named: None for models without id tables."""
    batch = batches[number]

    def slope(mixed: list[Tensor]) -> list[Tensor]:
        rows = named.mixed(mixed[1], number) if named else []
        found = gradients.gradient(mixed[0], rows, models.buffers, batch.inputs, batch.labels, training=False)
        return [found.dense, torch.cat([r.flatten(1) for r in found.rows], dim=1)] if named else [found.dense]

    if named is None:
        return Objective([models.dense], [differences], slope)
    return Objective([models.dense, named.own[:, number]], [differences, named.differences[:, :, number]], slope)


def probe_losses(
    models: ModelState,
    differences: Tensor,
    named: NamedRows | None,
    batches: Sequence[Batch],
    gradients: Gradients,
    share: float,
) -> Tensor:
    """The losses of M_i and of M_i + share X_j for every peer, summed over the batches: [g, 1 + P], own first."""
    inputs = [torch.stack(x, dim=1) for x in zip(*(batch.inputs for batch in batches), strict=True)]
    inputs = gradients.model.told(named.known if named else [], inputs)
    labels = torch.stack([batch.labels for batch in batches], dim=1)
    examples = labels[0].numel() * (1 + differences.shape[1])
    found = []
    several = max(1, EXAMPLES_AT_ONCE // examples)
    for start in range(0, len(models), several):
        here = slice(start, start + several)
        rows = named.cut(_probes(named.own[here], named.differences[here], share)) if named else []
        buffers = {name: b[here] for name, b in models.buffers.items()}
        dense = _probes(models.dense[here], differences[here], share)
        found.append(gradients.losses(dense, rows, buffers, [x[here] for x in inputs], labels[here]).sum(2))
    return torch.cat(found)


def _probes(own: Tensor, differences: Tensor, share: float) -> Tensor:
    """Own parameters [g, ...] and the probes of the peers after them, [g, 1 + P, ...]."""
    own = own.unsqueeze(1)
    return torch.cat([own, torch.add(own, differences, alpha=share)], dim=1)
