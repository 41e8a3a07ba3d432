"""The meaning of a table's columns."""

from typing import Final, Literal

import msgspec

from alphaedge.errors import InvalidValue, check_choice

NO_LAST: Final = "none"


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file and the meaning of its columns. What is left out is guessed.

    file: CSV or Parquet, or several of one kind by a pattern such as ``data/*.parquet``.
    time, edge, label: columns; a time is a date, a date with time of day, or a number.
    ids, categories, numbers: columns to learn from. The kinds of the others are guessed; only: they are not used.
    last: of the numbers, the one with the newest known value of the label, such as the one an hour ago, or ``none``;
        the model then learns the change since.
    task: ``classify`` a label of two values (the larger one is positive), ``regress`` a number, or ``auto``.
    """

    file: str
    time: str = ""
    edge: str = ""
    label: str = ""
    ids: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    only: bool = False
    last: str = ""
    task: Literal["auto", "classify", "regress"] = "auto"

    def __post_init__(self) -> None:
        check_choice("table: task", self.task, ["auto", "classify", "regress"])
        roles, inputs = [c for c in (self.time, self.edge, self.label) if c], self.inputs
        for column in (*roles, *inputs):
            # The edge may also be an input; no other column may have two meanings.
            times = (*roles, *inputs).count(column) - (column == self.edge and column in inputs)
            if times > 1:
                raise InvalidValue("table: columns", column, "each column once")
        if self.only and self.last not in ("", NO_LAST, *self.numbers):
            raise InvalidValue("table: last", self.last, f"{NO_LAST}, or one of the numbers {', '.join(self.numbers)}")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns to learn from."""
        return (*self.ids, *self.categories, *self.numbers)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to guess."""
        return bool(self.time and self.edge and self.label and self.only and self.last and self.task != "auto")

    def used_columns(self) -> list[str]:
        """Return the columns to read."""
        return [c for c in dict.fromkeys([self.time, self.edge, self.label, *self.inputs]) if c]

    def describe(self) -> str:
        """Return the meaning of the columns in one line."""
        kinds = {"ids": self.ids, "categories": self.categories, "numbers": self.numbers}
        since = f"; its last value is {self.last}" if self.last not in ("", NO_LAST) else ""
        parts = [f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names]
        return f"{self.task} {self.label} by {self.edge} in the order of {self.time}, from {'; '.join(parts)}{since}"
