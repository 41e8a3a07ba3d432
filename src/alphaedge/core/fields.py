"""What the fields of a batch are: ids, categories, sets and numbers."""

from dataclasses import dataclass
from typing import Literal, final

from alphaedge.errors import check_choice, check_number

Kind = Literal["id", "category", "set", "number"]


@final
@dataclass(frozen=True)
class Field:
    """One field of a batch.

    ======== =================== ======================================== =======================
    kind     tensor              what it is                               ``size``
    ======== =================== ======================================== =======================
    id       int64 [B]           a user, an item: rows belong to edges    ids there can be
    category int64 [B]           one of a few values everybody knows      values there are
    set      float [B, size]     several of a few values, 1 where present values there are
    number   float [B, size]     measurements                             how many of them
    ======== =================== ======================================== =======================
    """

    name: str
    kind: Kind
    size: int = 1

    def __post_init__(self) -> None:
        check_choice(f"field {self.name}: kind", self.kind, ["id", "category", "set", "number"])
        check_number(f"field {self.name}: size", self.size, low=1, whole=True)
