"""What the lists of checks have in common."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from alphaedge.errors import RuleError

R = TypeVar("R")


def expect(holds: bool, rule: Any, text: str) -> None:
    """Raise ``RuleError`` unless something holds of a rule."""
    if not holds:
        raise RuleError(f"{type(rule).__name__}: {text}")


def expect_picklable(rule: Any) -> None:
    """Raise ``RuleError`` unless a rule survives the way to another process."""
    try:
        again = pickle.loads(pickle.dumps(rule))
    except Exception as error:
        raise RuleError(f"{type(rule).__name__}: it can't be pickled ({error}); define it in a module") from None
    expect(again == rule, rule, "a copy must equal the rule: make it a frozen dataclass")


def all_close(a: Sequence[Tensor], b: Sequence[Tensor], tolerance: float = 0.0) -> bool:
    """Whether two lists of tensors are the same."""
    return all(torch.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b, strict=True))


def run_checks(checks: Sequence[Callable[[R], None]], rule: R) -> None:
    """Run checks in their order."""
    for check in checks:
        check(rule)
