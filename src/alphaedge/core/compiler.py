"""Keeps torch's compiler, which takes seconds to import, out of gradients under vmap that do not use it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._functorch import eager_transforms

_TRANSFORMS: Any = eager_transforms
_GRADIENT: Any = getattr(eager_transforms, "_autograd_grad", None)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Let ``torch.func.grad`` call autograd itself, as long as the compiler is not loaded.

    Before it does so, it turns compiled autograd off, and imports the compiler to find out that it is off.
    """
    if _GRADIENT is None or "torch._dynamo" in sys.modules:
        yield
        return
    _TRANSFORMS._autograd_grad = _gradient
    try:
        yield
    finally:
        _TRANSFORMS._autograd_grad = _GRADIENT


def _gradient(outputs: Sequence[Tensor], inputs: Sequence[Tensor], *others: Any, **options: Any) -> tuple[Tensor, ...]:
    if others or options != {"create_graph": True}:  # not the call of ``torch.func.grad``
        found: tuple[Tensor, ...] = _GRADIENT(outputs, inputs, *others, **options)
        return found
    of = [output for output in outputs if output.requires_grad]
    slopes = torch.autograd.grad(of, inputs, create_graph=True, allow_unused=True) if of else [None] * len(inputs)
    return tuple(torch.zeros_like(x) if slope is None else slope for x, slope in zip(inputs, slopes, strict=True))
