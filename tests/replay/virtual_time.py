"""An event loop in virtual time, and a fake edge: minutes of replay take milliseconds."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from alphaedge import Stream
from alphaedge.errors import EdgeError
from alphaedge.inference.client import Predictions
from alphaedge.inference.feedback import FeedbackCounts

T = TypeVar("T")
URL = "http://edge"


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all tasks wait forever"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self.selector = _JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


def spend(seconds: float) -> None:
    """Advance the clock while nothing else can happen, as a busy load generator does."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.selector.now += seconds


@dataclass
class FakeEdge:
    """An edge in virtual time. Its prediction for an event is the event's ``x``.

    answer_seconds: of an answer, by the time of the request. down: spans of time without answers. loses_answers:
    whether feedback that comes as it goes down is accepted, and only the answer lost. refuses: the status of a refusal,
    by the request and its values; 0 accepts. busy_seconds: that each request costs the load generator.
    predict_requests: their times and events. feedback_requests: their times and ids. ids: the event of each prediction.
    labels: by prediction id.
    """

    answer_seconds: Callable[[float], float] = lambda _: 0.01
    down: Sequence[tuple[float, float]] = ()
    loses_answers: bool = False
    refuses: Callable[[str, Sequence[float]], int] = lambda _, __: 0
    busy_seconds: float = 0.0
    url: str = URL
    predict_requests: list[tuple[float, list[float]]] = field(default_factory=list)
    ids: dict[int, float] = field(default_factory=dict)
    labels: dict[int, float] = field(default_factory=dict)
    feedback_requests: list[tuple[float, list[int]]] = field(default_factory=list)

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        values = np.asarray(inputs["x"]).reshape(-1)
        began, events = now(), values.tolist()
        spend(self.busy_seconds)
        self._refuse("predict", events)
        await self._answer()
        ids = np.arange(len(self.ids), len(self.ids) + len(events)) + 1
        self.ids |= dict(zip(ids.tolist(), events, strict=True))
        self.predict_requests.append((began, events))
        return Predictions(ids, values.astype(np.float32), now() - began)

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        began = now()
        self._refuse("feedback", labels)
        new = [i for i in ids if i in self.ids and i not in self.labels]
        if self.loses_answers and not self._is_down():
            self.labels |= dict(zip(ids, labels, strict=True))
            await self._answer()
        else:
            await self._answer()
            self.labels |= dict(zip(ids, labels, strict=True))
        self.feedback_requests.append((began, list(ids)))
        return FeedbackCounts(len(new), len(ids) - len(new), 0, 0)

    async def _answer(self) -> None:
        seconds = 0.001 if self._is_down() else self.answer_seconds(now())
        died = self._is_down() or any(start <= now() + seconds and now() < start for start, _ in self.down)
        await asyncio.sleep(seconds)
        if died or self._is_down():
            raise EdgeError(self.url, "no answer")

    def _is_down(self) -> bool:
        return any(start <= now() < end for start, end in self.down)

    def _refuse(self, what: str, values: Sequence[float]) -> None:
        status = self.refuses(what, values)
        if status:
            raise EdgeError(self.url, f"{status}: refused", status)


def stream(times: Sequence[float], labels: Sequence[float] | None = None) -> Stream:
    """Make a stream of events at these times; ``x`` of each is its number."""
    count = len(times)
    numbers = torch.arange(count, dtype=torch.float32)
    label = numbers % 2 if labels is None else torch.tensor(labels, dtype=torch.float32)
    return Stream({"x": numbers.view(-1, 1)}, label, torch.tensor(times, dtype=torch.float64))
