"""The ridge of a model: weights of a linear part whose best values are solved for, not approached in small steps.

With inputs x_t and what the labels leave to explain r_t, the recursive least squares of an online ridge regression are

    A <- A + sum x x',     w <- w + (A + c I)^-1 sum x r

The module keeps A, the ``gram`` of its inputs, as a buffer; c is ``PENALTY`` for each input, so that many inputs do not
fit the noise of few examples. The weights are parameters like others: published, mixed and pulled. A is the edge's own,
and says how far new examples move the weights, whoever they came from. For squared errors, and what equals them near 0,
sum x r is -B / 2 times the gradient of the mean loss, in the unit of the labels (core.labels).
"""

from typing import Final, NamedTuple, final

import torch
from torch import Tensor

PENALTY: Final = 2.0


@final
class Ridge(NamedTuple):
    """Where the weights lie in a model's dense part, and the buffer with the gram of their inputs."""

    start: int
    stop: int
    gram: str

    def weights(self, dense: Tensor) -> Tensor:
        """A view of the weights [k, F] in the dense parts [k, D]."""
        return dense[:, self.start : self.stop]


def step(gram: Tensor, slope: Tensor, unit: Tensor, examples: int) -> Tensor:
    """How far the weights of k edges move, [k, F]. gram [k, F, F]: these examples included; slope [k, F]; unit [k]."""
    inputs = gram.shape[-1]
    penalty = PENALTY * inputs * torch.eye(inputs, dtype=gram.dtype, device=gram.device)
    square = (unit * unit).unsqueeze(1)
    left = torch.where(square > 0, slope * (-examples / 2) / torch.where(square > 0, square, 1), 0)
    moves: Tensor = torch.linalg.solve(gram + penalty, left)
    return moves
