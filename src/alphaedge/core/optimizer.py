"""How parameters move: what an optimizer is on stacked state, one row a model, each model with its own step count.

The rules are in ``core/rules``: Adam, Adagrad, SGD. **Rows of id tables** follow one of two readings. A rule with lazy
rows moves only the rows that the batch names: then "changed since the last pull" has a meaning, as the paper assumes.
A rule with dense rows does what ``torch.optim.Adam`` does to an ``nn.Embedding``: momentum keeps moving every row that
was ever touched. Or rows have a rule of their own (``Online.row_optimizer``). See docs/decisions.
"""

from typing import Protocol

from torch import Tensor


class Optimizer(Protocol):
    """A gradient rule. All tensors are moved in place; ``m`` and ``v`` are two numbers it may keep per parameter."""

    @property
    def lazy_rows(self) -> bool:
        """Whether id rows that a batch does not name stay as they are."""
        ...

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        """One step. All four are [k, ...]; ``steps`` [k] counts each model's steps, this one included."""
        ...

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        """``missed`` steps with gradient zero at once, after ``before`` steps; both [k], one per model.

        ``value``, ``m`` and ``v`` are [k, ...], or [U, ...] with ``owner`` [U] saying which model each belongs to.
        Only called on a rule whose rows are not lazy.
        """
        ...
