"""What can go wrong, in one tree.

AlphaEdgeError
├── InvalidValue     a setting or a datum that is refused at the door
└── ModelError       a module that does not do what was declared of it
"""

from collections.abc import Iterable
from typing import Any


class AlphaEdgeError(Exception):
    """Base of every error that AlphaEdge raises on purpose."""


class InvalidValue(AlphaEdgeError, ValueError):
    """A value was refused: says which field, what was found and what is allowed.

    >>> raise InvalidValue("delay", -1, "a whole number of batches, 0 or more")
    Traceback (most recent call last):
        ...
    alphaedge.errors.InvalidValue: delay: found -1; allowed: a whole number of batches, 0 or more
    """

    def __init__(self, field: str, found: Any, allowed: str) -> None:
        self.field, self.found, self.allowed = field, found, allowed
        super().__init__(field, found, allowed)

    def __str__(self) -> str:
        return f"{self.field}: found {self.found!r}; allowed: {self.allowed}"


class ModelError(AlphaEdgeError):
    """A user's module does not do what was declared of it."""


def check_number(
    field: str,
    found: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse ``found`` unless it is a finite number in the stated range (bounds included; ``above`` not)."""
    kind = "a whole number" if whole else "a number"
    bounds = []
    if low is not None and high is not None:
        bounds.append(f"from {low} to {high}")
    elif low is not None:
        bounds.append(f"of at least {low}")
    if above is not None:
        bounds.append(f"above {above}")
    if below is not None:
        bounds.append(f"below {below}")
    right_type = isinstance(found, int | float) and not isinstance(found, bool)
    if (
        not right_type
        or found != found
        or found in (float("inf"), float("-inf"))
        or (whole and not isinstance(found, int))
        or (low is not None and found < low)
        or (high is not None and found > high)
        or (above is not None and found <= above)
        or (below is not None and found >= below)
    ):
        raise InvalidValue(field, found, " ".join([kind, *bounds]))


def check_choice(field: str, found: Any, choices: Iterable[str]) -> None:
    """Refuse ``found`` unless it is one of ``choices``."""
    choices = list(choices)
    if found not in choices:
        raise InvalidValue(field, found, "one of " + ", ".join(choices))
