"""What is sent to one edge, and when: requests for predictions, and later what came of them. Pure.

A request has some consecutive events of a stream and can't be sent before its last event has happened. Moments are in
seconds of the data's time since the replay's start, which is the first event of any edge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.data.stream import Stream
from alphaedge.replay.pace import Options


@final
class Step(NamedTuple):
    """The next thing to do: ask for the predictions of a group of events, or tell what came of them."""

    moment: float
    group: int
    tells: bool


@final
@dataclass(frozen=True)
class Plan:
    """One edge's requests. Group g has the events ``bounds[g]`` to ``bounds[g + 1]``.

    asked, due: when each group's predictions are asked for, and when its outcomes are known [G].
    """

    bounds: NDArray[np.int64]
    asked: NDArray[np.float64]
    due: NDArray[np.float64]

    @classmethod
    def of(cls, stream: Stream, options: Options, *, start: float, rng: np.random.Generator) -> "Plan":
        """The plan for a stream. start: the time, in the stream's units, at which the replay starts."""
        events, size = len(stream), options.per_request
        bounds = np.append(np.arange(0, events, size), events) if events else np.zeros(1, dtype=np.int64)
        times = stream.times.numpy().astype(np.float64)[bounds[1:] - 1]
        asked = (times - start) * options.unit
        return cls(bounds.astype(np.int64), asked, asked + options.delay.draw(len(asked), rng))

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def events(self) -> int:
        """How many events it has."""
        return int(self.bounds[-1])

    @property
    def end(self) -> float:
        """When the last thing is done."""
        return float(self.due.max()) if len(self) else 0.0

    def slice(self, group: int) -> slice:
        """The events of a group."""
        return slice(int(self.bounds[group]), int(self.bounds[group + 1]))

    def steps(self) -> Iterator[Step]:
        """Everything in order. What is known at a moment is told before the next prediction of that moment."""
        count = len(self)
        moments = np.concatenate([self.asked, self.due])
        groups = np.concatenate([np.arange(count), np.arange(count)])
        tells = np.repeat([False, True], count)
        for place in np.lexsort([tells, groups, moments]):
            yield Step(float(moments[place]), int(groups[place]), bool(tells[place]))


def start_of(streams: Iterable[Stream]) -> float:
    """The time of the first event of all streams.

    >>> start_of([])
    0.0
    """
    return min((float(s.times[0]) for s in streams if len(s)), default=0.0)


def speed_for(streams: Iterable[Stream], options: Options, seconds: float) -> float:
    """The speed at which the events of some streams take so many seconds."""
    streams = [s for s in streams if len(s)]
    span = max((float(s.times[-1]) for s in streams), default=0.0) - start_of(streams)
    return max(span * options.unit / seconds, 1e-9)
