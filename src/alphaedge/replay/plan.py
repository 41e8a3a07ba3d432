"""The plan for one edge: which request is sent when, for predictions and later for feedback. Pure.

A request has consecutive events of a stream and is not sent before the last of them has happened. Times are in seconds
of the data's time since the start of the replay, which is the first event of any edge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.data.stream import Stream
from alphaedge.replay.options import ReplayOptions


@final
class Step(NamedTuple):
    """One request: for the predictions of a group of events, or the feedback on them."""

    time: float
    group: int
    is_feedback: bool


@final
@dataclass(frozen=True)
class Plan:
    """The requests to one edge. Group g has the events ``bounds[g]`` to ``bounds[g + 1]``.

    predict_at, feedback_at: when predictions of a group are requested, and when its labels are known [G].
    """

    bounds: NDArray[np.int64]
    predict_at: NDArray[np.float64]
    feedback_at: NDArray[np.float64]

    @classmethod
    def make(cls, stream: Stream, options: ReplayOptions, *, start: float, rng: np.random.Generator) -> "Plan":
        """Make the plan for a stream. start: of the replay, in the units of the stream's times."""
        events, size = len(stream), options.per_request
        bounds = np.append(np.arange(0, events, size), events) if events else np.zeros(1, dtype=np.int64)
        times = stream.times.numpy().astype(np.float64)[bounds[1:] - 1]
        predict_at = (times - start) * options.time_unit
        return cls(bounds.astype(np.int64), predict_at, predict_at + options.delay.draw(len(predict_at), rng))

    def __len__(self) -> int:
        return len(self.predict_at)

    @property
    def event_count(self) -> int:
        """The number of events."""
        return int(self.bounds[-1])

    @property
    def end(self) -> float:
        """The time of the last request."""
        return float(self.feedback_at.max()) if len(self) else 0.0

    def events_of(self, group: int) -> slice:
        """Return the events of a group."""
        return slice(int(self.bounds[group]), int(self.bounds[group + 1]))

    def steps(self) -> Iterator[Step]:
        """Yield all requests in order of time; at equal times, feedback comes before the next predictions."""
        count = len(self)
        times = np.concatenate([self.predict_at, self.feedback_at])
        groups = np.concatenate([np.arange(count), np.arange(count)])
        is_feedback = np.repeat([False, True], count)
        for place in np.lexsort([is_feedback, groups, times]):
            yield Step(float(times[place]), int(groups[place]), bool(is_feedback[place]))


def first_event_time(streams: Iterable[Stream]) -> float:
    """Return the time of the first event of all streams.

    >>> first_event_time([])
    0.0
    """
    return min((float(s.times[0]) for s in streams if len(s)), default=0.0)


def speed_for(streams: Iterable[Stream], options: ReplayOptions, seconds: float) -> float:
    """Return the speed at which the events of all streams take so many seconds."""
    streams = [s for s in streams if len(s)]
    span = max((float(s.times[-1]) for s in streams), default=0.0) - first_event_time(streams)
    return max(span * options.time_unit / seconds, 1e-9)
