"""What came of a replay: scores, latencies and counts, of each edge and of all, as plain values."""

from collections.abc import Mapping, Sequence
from typing import Final, final

import msgspec
import numpy as np

from alphaedge.data.stream import Task
from alphaedge.replay.scores import Point

PER_DECADE: Final = 12  # bars of a histogram of latencies between 1 ms and 10 ms


@final
class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long things took, in milliseconds. histogram: (upper bound, how many), on a logarithmic scale."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    histogram: tuple[tuple[float, int], ...] = ()

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """From single times in seconds.

        >>> Latency.of([0.001, 0.003]).max
        3.0
        """
        if not len(seconds):
            return cls()
        found = np.asarray(seconds, dtype=np.float64) * 1e3
        p50, p95, p99 = (float(q) for q in np.percentile(found, [50, 95, 99]))
        places = np.ceil(np.log10(np.maximum(found, 1e-3)) * PER_DECADE).astype(np.int64)
        bars = zip(*(part.tolist() for part in np.unique(places, return_counts=True)), strict=True)
        histogram = tuple((10 ** (place / PER_DECADE), count) for place, count in bars)
        return cls(count=len(found), p50=p50, p95=p95, p99=p99, max=float(found.max()), histogram=histogram)


@final
class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes that edges were told of: accepted, or not since they were known already, too late or of an unknown
    prediction. undelivered: of predictions that were made, and that the edge was not told of, or refused."""

    accepted: int = 0
    known: int = 0
    expired: int = 0
    unknown: int = 0
    undelivered: int = 0

    def __add__(self, other: "Feedback") -> "Feedback":
        return Feedback(**{n: getattr(self, n) + getattr(other, n) for n in self.__struct_fields__})


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one edge, or of all.

    planned, events: events that there are, and that were predicted. requests: for predictions, that were answered.
    failures: those that never were, or refused. retries: attempts that were repeated. per_second: answered requests.
    score: the mean over consecutive batches that have one; pooled: that of all predictions of an edge at once. Of all
    edges both are means over edges.
    latency: of predictions, from the moment when they were to be sent. service: of the same, from when they were sent.
    feedback_latency: from the moment when outcomes were due. crowded: requests whose moment came while all connections
    were busy.
    """

    planned: int = 0
    events: int = 0
    requests: int = 0
    failures: int = 0
    retries: int = 0
    per_second: float = 0.0
    feedback: Feedback = Feedback()
    score: float | None = None
    pooled: float | None = None
    latency: Latency = Latency()
    service: Latency = Latency()
    feedback_latency: Latency = Latency()
    crowded: int = 0


@final
class EdgeResult(Figures, frozen=True, kw_only=True):
    """What came of one edge. series: its scores over time. errors: what went wrong, and how often.

    gave_up: why the rest was not sent, if the edge did not answer for too long.
    """

    edge: str
    url: str
    series: tuple[Point, ...] = ()
    errors: Mapping[str, int] = {}
    gave_up: str | None = None


@final
class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a replay. speed: None is as fast as answers came. stopped: before its end, by somebody.

    late: how much later than it was to happen the generator itself did something, sampled all the time.
    """

    task: Task
    metric: str
    batch_size: int
    speed: float | None
    delay: str
    per_request: int
    connections: int
    seconds: float
    stopped: bool
    late: Latency
    total: Figures
    edges: tuple[EdgeResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def delivered(self) -> bool:
        """Whether every request was answered, and every outcome told."""
        lost = self.total.failures or self.total.feedback.undelivered or any(e.gave_up for e in self.edges)
        return not lost

    def json(self) -> bytes:
        """As a file has it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)
