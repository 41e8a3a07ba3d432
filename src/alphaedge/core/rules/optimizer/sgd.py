"""Gradient descent: p <- p - rate * g."""

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class SGD:
    """p <- p - rate * g. Rows that a batch does not name have gradient zero, so they stay."""

    lazy_rows: ClassVar[bool] = True

    rate: float = 0.01

    def __post_init__(self) -> None:
        check_number("rate", self.rate, above=0)

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        """One step in place; ``m``, ``v`` and ``steps`` are not used."""
        value.add_(gradient, alpha=-self.rate)

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        """Nothing moves without a gradient."""
