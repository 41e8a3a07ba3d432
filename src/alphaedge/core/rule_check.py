"""The door for rules: a rule that does not fulfil its protocol is refused before any work starts."""

import inspect
from typing import Any, Final

from alphaedge.core.aggregation import Aggregation, PeerMemory
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.selection import Selection
from alphaedge.errors import RuleError

# What each protocol asks for besides its methods: the types that a member's value may have.
_VALUES: Final[dict[type, dict[str, tuple[type, ...]]]] = {
    Aggregation: {"uses_peers": (bool,), "weight_batches": (int,), "memory": (PeerMemory,)},
    Selection: {"peers": (int, type(None)), "every": (int,)},
    Optimizer: {"lazy_rows": (bool,)},
}
_METHODS: Final[dict[type, tuple[str, ...]]] = {
    Aggregation: ("weigh", "mix"),
    Selection: ("first", "choose"),
    Optimizer: ("update", "coast"),
}


def check_rule(field: str, rule: Any, protocol: type) -> None:
    """Refuse a rule that lacks a part of its protocol; the error names every part that is missing or wrong."""
    if isinstance(rule, type):
        raise RuleError(f"{field}: {rule.__name__} is a class; give an instance, such as {rule.__name__}()")
    wrong = [*_wrong_values(rule, _VALUES[protocol]), *_wrong_methods(rule, protocol, _METHODS[protocol])]
    if wrong:
        raise RuleError(f"{field}: {type(rule).__name__} is not a rule of this kind: {'; '.join(wrong)}")


def _wrong_values(rule: Any, members: dict[str, tuple[type, ...]]) -> list[str]:
    wrong = []
    for name, kinds in members.items():
        allowed = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        try:
            value = getattr(rule, name)
        except AttributeError:
            wrong.append(f"{name} is missing ({allowed})")
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wrong.append(f"{name} is {value!r}, not {allowed}")
    every = {"every": 1, "weight_batches": 1}
    for name in every.keys() & members.keys():
        value = getattr(rule, name, None)
        if isinstance(value, int) and value < 1:
            wrong.append(f"{name} is {value!r}, not 1 or more")
    return wrong


def _wrong_methods(rule: Any, protocol: type, names: tuple[str, ...]) -> list[str]:
    wrong = []
    for name in names:
        wanted = list(inspect.signature(getattr(protocol, name)).parameters)[1:]
        shown = f"{name}({', '.join(wanted)})"
        method = getattr(rule, name, None)
        if not callable(method):
            wrong.append(f"{shown} is missing")
            continue
        try:
            inspect.signature(method).bind(*wanted)
        except TypeError as error:
            wrong.append(f"{name} can't be called as {shown} ({error})")
    return wrong
