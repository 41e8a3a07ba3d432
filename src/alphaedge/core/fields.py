"""What the fields of a batch are: ids, categories, sets and numbers."""

from dataclasses import dataclass
from typing import Final, Literal, final, get_args

from alphaedge.errors import InvalidValue, check_choice, check_number

Kind = Literal["id", "category", "code", "set", "number"]
KINDS: Final = get_args(Kind)
KEYED: Final = ("id", "category")  # kinds whose values have rows of their own, found by the value
WHOLE: Final = (*KEYED, "code")  # kinds that a batch holds as one whole number per example


@final
@dataclass(frozen=True)
class Field:
    """One field of a batch.

    ======== =================== ============================================= =======================
    kind     tensor              what it is                                    ``size``
    ======== =================== ============================================= =======================
    id       int64 [B]           a user, an item: a row for each, and a tally  values there can be
    category int64 [B]           a colour, a brand: a row for each             values there can be
    code     int64 [B]           one of ``size`` numbers that all edges agree  values there are
                                 on, such as the hour of the day
    set      float [B, size]     several of a few values, 1 where present      values there are
    number   float [B, size]     measurements                                  how many of them
    ======== =================== ============================================= =======================

    The values of ids and categories are text or whole numbers (``alphaedge.values``). Inside a process they have
    numbers; between processes only their keys travel. missing: whether numbers may be missing, which is NaN.
    """

    name: str
    kind: Kind
    size: int = 1
    missing: bool = False

    def __post_init__(self) -> None:
        check_choice(f"field {self.name}: kind", self.kind, KINDS)
        check_number(f"field {self.name}: size", self.size, low=1, whole=True)
        if self.missing and self.kind != "number":
            raise InvalidValue(f"field {self.name}: missing", True, "False: only numbers may be missing")
