"""Worlds of planted clusters, and a model of the weights that learning yields in them."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NOBODY: Final = -1  # an empty place among neighbours or candidates


@final
@dataclass(frozen=True)
class LearnedWeights:
    """What an edge's raw weight for a neighbour is after a round, with 1 for the edge's own model.

    a = max(0, m + noise z), with z normal and drawn anew in every round, and m the mean: ``alike`` for an edge of the
    same cluster, ``stranger`` for others, clamped at 0 as the learned weights are. The defaults resemble what the
    simulator learns on the synthetic store (``learned_weights.py`` measures both).

    likeness: how like an edge of a cluster nearby is, per level. 0: a cluster is like no other. With 0.5, the mean is
    half way to ``stranger`` for another cluster of the same ten, three quarters for another ten of the same hundred.
    """

    alike: float = 0.4
    stranger: float = -0.1
    noise: float = 0.2
    likeness: float = 0.0

    def draw(self, cluster: Ints, other: Ints, rng: np.random.Generator) -> Floats:
        """Draw the weights that edges of some clusters give to edges of other clusters."""
        near = (cluster == other).astype(float)
        if self.likeness:
            likeness = 1.0
            while np.any((cluster := cluster // 10) != (other := other // 10)) or likeness == 1.0:
                likeness *= self.likeness
                near = np.where((near == 0) & (cluster == other), likeness, near)
        mean = self.stranger + (self.alike - self.stranger) * near
        drawn: Floats = np.maximum(0.0, mean + self.noise * rng.standard_normal(mean.shape))
        return drawn


def plant(edges: int, size: int, rng: np.random.Generator) -> Ints:
    """Put edges into clusters of about that size, and return each edge's cluster."""
    clusters = max(1, edges // size)
    return rng.permutation(np.arange(edges) % clusters).astype(np.int32)
