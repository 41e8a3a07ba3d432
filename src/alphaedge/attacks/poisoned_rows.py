"""Poisoned rows at first sight: rows for every id there is, so that the ids new to others start from them."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class PoisonedRows:
    """Publish an honest dense part, with rows that all say the same: ``value`` in every number."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = True

    value: float = 1.0

    def __post_init__(self) -> None:
        check_number("value", self.value)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace every row."""
        forgery.rows = [torch.full_like(rows, self.value) for rows in forgery.rows]
