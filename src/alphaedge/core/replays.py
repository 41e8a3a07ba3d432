"""Stacked calls that repeat, replayed from their recordings (``core.recording``)."""

from collections.abc import Callable
from typing import Final, Protocol, final

import torch
from torch import Tensor

from alphaedge.core.compiler import without_compiler
from alphaedge.core.device import fork_randomness
from alphaedge.core.recording import Function, record, script

# Recording costs as much as a hundred calls: without a store, only calls that repeat are recorded.
CALLS_BEFORE_TRACING: Final = 4


class Recordings(Protocol):
    """Keeps the recorded calls of one model from process to process."""

    def get(self, call: str) -> str | None:
        """The recording of that call, if there is one. It may be damaged."""
        ...

    def put(self, call: str, source: str) -> None:
        """Keep a recording, in the place of an older one."""
        ...


@final
class Replays:
    """Runs stacked calls, from recordings where that is faster.

    trace: whether calls are recorded. recordings: where they are kept for other processes; without it, only calls that
    keep coming are recorded.
    """

    def __init__(self, *, trace: bool = True, recordings: Recordings | None = None) -> None:
        self._trace, self._recordings = trace, recordings
        self._calls: dict[object, int] = {}
        self._replays: dict[object, Function] = {}

    def run(
        self, kind: object, function: Function, flat: list[Tensor], first_edge: Callable[[], list[Tensor]] | None = None
    ) -> list[Tensor]:
        """Run a stacked call, or its recording. first_edge: computes the results of the first edge in another way."""
        if not self._trace:
            return with_autograd(function)(*flat)
        flat = [t.contiguous() for t in flat]  # as they will be when replayed
        key = (kind, flat[0].device, *((t.shape[1:], t.dtype) for t in flat))  # a recording names its device
        replay = self._replays.get(key)
        if replay is None:
            # With a store, a call is a recording from the first time on, so that results do not depend on its state.
            calls = self._calls[key] = self._calls.get(key, 0) + 1
            function = with_autograd(function)
            if self._recordings is None and calls < CALLS_BEFORE_TRACING:
                return function(*flat)
            replay = self._kept(key, function, flat, first_edge) or self._recorded(key, function, flat)
            self._replays[key] = replay
        with torch.no_grad():
            return replay(*flat)

    def _kept(
        self, key: object, function: Function, flat: list[Tensor], first_edge: Callable[[], list[Tensor]] | None
    ) -> Function | None:
        """The call as another process has recorded it, if that gives the same numbers.

        They are compared with the plain loop's, where there is one: it takes less time than a first call of vmap.
        """
        source = self._recordings.get(repr(key)) if self._recordings else None
        if source is None or first_edge is None:
            return None if source is None else _replay(source, function, flat)
        return _replay(source, lambda *_: first_edge(), [x[:1] for x in flat])

    def _recorded(self, key: object, function: Function, flat: list[Tensor]) -> Function:
        """The call as a recording, or as it is if it can't be recorded."""
        try:
            # Recording draws random numbers that the call would not.
            with fork_randomness(flat[0].device), torch.inference_mode(False):
                source = record(function, flat)
        except Exception:  # whatever a module does that cannot be recorded, the call itself works
            return function
        replay = _replay(source, function, flat)
        if replay is not None and self._recordings:
            self._recordings.put(repr(key), source)
        return replay or function


def with_autograd(function: Function) -> Function:
    """The function as it can be called in inference mode, whose tensors autograd does not take."""

    def call(*flat: Tensor) -> list[Tensor]:
        with torch.inference_mode(False), without_compiler():
            return function(*(x.clone() if x.is_inference() else x for x in flat))

    return call


def _replay(source: str, function: Function, flat: list[Tensor]) -> Function | None:
    """A recording as a function, if it gives what the call itself gives."""
    try:
        replay = script(source)
    except Exception:  # a damaged file, or an operation that TorchScript does not take
        return None
    return replay if agrees(replay, function, flat) else None


def agrees(new: Function, function: Function, flat: list[Tensor]) -> bool:
    """Whether another way to compute a call gives what the call itself gives, from the same randomness."""
    found = []
    try:
        for each in (function, new):
            with fork_randomness(flat[0].device), torch.no_grad():
                torch.manual_seed(0)
                found.append(each(*flat))
    except Exception:  # the call itself works, whatever the other way trips over
        return False
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) for a, b in zip(*found, strict=True))
