"""Adagrad (Duchi, Hazan and Singer, 2011): v <- v + g^2, p <- p - rate * g / (sqrt(v) + eps)."""

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Adagrad:
    """v <- v + g^2, p <- p - rate * g / (sqrt(v) + eps) (Duchi, Hazan and Singer, 2011).

    Made for rows of ids: one that was seen twice takes large steps, one that was seen a thousand times small ones.
    """

    lazy_rows: ClassVar[bool] = True

    rate: float = 0.1
    eps: float = 1e-4

    def __post_init__(self) -> None:
        check_number("rate", self.rate, above=0)
        check_number("eps", self.eps, above=0)

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        """One step in place; ``m`` and ``steps`` are not used."""
        v.addcmul_(gradient, gradient)
        value.addcdiv_(gradient, v.sqrt().add_(self.eps), value=-self.rate)

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        """Nothing moves without a gradient."""
