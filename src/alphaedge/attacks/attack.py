"""What an attack is: a hostile edge follows the protocol, but forges what it publishes, announces or learns from.

The simulator lets a share of the edges attack (``Conditions.attack``, ``Conditions.adversaries``); the tests run the
same files in real edges. Attacks on the transport, such as an answer of one byte a second, exist in the tests only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import torch
from torch import Tensor


@final
@dataclass
class Forgery:
    """What a hostile edge is about to publish; an attack changes it.

    dense: [D]. rows: per id table [n, width], the rows that are published now. statistics: running statistics by name.
    records: examples that the model claims to have learned from. shares: the weights for others that it announces.
    tallies: per id table [n, 2], those of the same ids, or [n, 0] if none are told (core.tally).
    """

    dense: Tensor
    rows: list[Tensor]
    statistics: dict[str, Tensor]
    records: int
    shares: dict[Any, float] = field(default_factory=dict)
    tallies: list[Tensor] = field(default_factory=list)


@final
@dataclass(frozen=True)
class Scene:
    """What a hostile edge knows while it forges.

    start: the dense part of the model that everybody started from. number: of this publication, from 1.
    first: what the edge published at first. victim: the last publication of another edge, if there is one. The rows of
        both belong to the ids of the forgery; ids that they lack have rows of zeros and the edge's own rows.
    accomplices: the other hostile edges. rng: randomness of this edge at this publication, on the CPU: it is
        the same wherever the models are.
    """

    start: Tensor
    number: int
    first: Forgery | None
    victim: Forgery | None
    accomplices: Sequence[Any]
    rng: torch.Generator


class Attack(Protocol):
    """An attack. Implementations are values (frozen dataclasses)."""

    @property
    def flips_labels(self) -> bool:
        """Whether the hostile edge learns from flipped labels."""
        ...

    @property
    def claims_all_rows(self) -> bool:
        """Whether it publishes rows for ids that it has never seen, too."""
        ...

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Change what is published, in place."""
        ...


def noise_like(values: Tensor, rng: torch.Generator) -> Tensor:
    """Normal noise with the root mean square of the values."""
    size = values.square().mean().sqrt() if values.numel() else values.new_zeros(())
    drawn = torch.randn(values.shape, generator=rng, dtype=values.dtype, device=rng.device)
    return drawn.to(values.device) * size
