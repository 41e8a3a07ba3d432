"""The result of a replay: scores, latencies and counts, of each edge and of all, as plain values."""

from collections.abc import Mapping, Sequence
from typing import Final, final

import msgspec
import numpy as np

from alphaedge.data.stream import Task
from alphaedge.replay.scores import ScorePoint

BARS_PER_DECADE: Final = 12  # of a histogram of latencies
MAX_GENERATOR_LAG_MS: Final = 10.0  # at the 99th percentile; a note says if it is more
MAX_QUEUED_SHARE: Final = 0.01  # of requests that wait for a connection; a note says if it is more
MAX_ERROR_NOTES: Final = 5


@final
class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in milliseconds. histogram: (upper bound, count) pairs on a logarithmic scale."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    histogram: tuple[tuple[float, int], ...] = ()

    @classmethod
    def from_seconds(cls, seconds: Sequence[float]) -> "Latency":
        """Summarize single latencies, given in seconds.

        >>> Latency.from_seconds([0.001, 0.003]).max
        3.0
        """
        if not len(seconds):
            return cls()
        values = np.asarray(seconds, dtype=np.float64) * 1e3
        p50, p95, p99 = (float(q) for q in np.percentile(values, [50, 95, 99]))
        places = np.ceil(np.log10(np.maximum(values, 1e-3)) * BARS_PER_DECADE).astype(np.int64)
        bars = zip(*(part.tolist() for part in np.unique(places, return_counts=True)), strict=True)
        histogram = tuple((10 ** (place / BARS_PER_DECADE), count) for place, count in bars)
        return cls(count=len(values), p50=p50, p95=p95, p99=p99, max=float(values.max()), histogram=histogram)


@final
class FeedbackTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Labels sent to edges.

    accepted: to be learned. known: the prediction already had a label. expired: came after the feedback window.
    unknown: the edge does not know the prediction. undelivered: never sent, or refused.
    """

    accepted: int = 0
    known: int = 0
    expired: int = 0
    unknown: int = 0
    undelivered: int = 0

    def __add__(self, other: "FeedbackTotals") -> "FeedbackTotals":
        return FeedbackTotals(**{n: getattr(self, n) + getattr(other, n) for n in self.__struct_fields__})


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one edge, or of all.

    planned, events: events in the plan, and events with a prediction. requests: for predictions, answered. failures:
    requests for predictions that were refused or never answered. retries: repeated attempts. per_second: requests.
    score: the mean over consecutive batches that have one. pooled: the score of all predictions of an edge at once. Of
    all edges, both are means over edges.
    latency: of predictions, from the time that they were planned for. service: of the same, from when they were sent.
    feedback_latency: of feedback, from the time that its labels were known. queued: requests that waited for a free
    connection.
    """

    planned: int = 0
    events: int = 0
    requests: int = 0
    failures: int = 0
    retries: int = 0
    per_second: float = 0.0
    feedback: FeedbackTotals = FeedbackTotals()
    score: float | None = None
    pooled: float | None = None
    latency: Latency = Latency()
    service: Latency = Latency()
    feedback_latency: Latency = Latency()
    queued: int = 0


@final
class EdgeResult(Measurements, frozen=True, kw_only=True):
    """The result of one edge. series: its scores over time. errors: how often each occurred.

    gave_up: why the rest was not sent, if the edge did not answer for too long.
    """

    edge: str
    url: str
    series: tuple[ScorePoint, ...] = ()
    errors: Mapping[str, int] = {}
    gave_up: str | None = None


@final
class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay.

    speed: None is as fast as answers came. stopped: whether it was stopped early. generator_lag: how much later than
    planned the load generator itself acted, sampled throughout. notes: what to know before reading the numbers.
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
    generator_lag: Latency
    total: Measurements
    edges: tuple[EdgeResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def delivered(self) -> bool:
        """Whether every request was answered and every label delivered."""
        lost = self.total.failures or self.total.feedback.undelivered or any(e.gave_up for e in self.edges)
        return not lost

    def to_json(self) -> bytes:
        """Return the result as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


def with_notes(result: ReplayResult) -> ReplayResult:
    """Return the result with its notes."""
    total, feedback = result.total, result.total.feedback
    notes = [f"{e.edge}: given up, it did not answer for too long ({e.gave_up})" for e in result.edges if e.gave_up]
    if result.stopped:
        notes.append("stopped early: the numbers are of what was sent until then")
    if total.failures:
        notes.append(f"{total.failures} requests were refused or never answered; their events have no score")
    if feedback.undelivered:
        notes.append(f"{feedback.undelivered} labels were not delivered")
    if feedback.expired:
        notes.append(f"{feedback.expired} labels came after the feedback window (feedback.window_seconds)")
    if feedback.unknown:
        notes.append(f"{feedback.unknown} labels were for predictions that the edge does not know")
    lag = result.generator_lag.p99
    if lag is not None and lag > MAX_GENERATOR_LAG_MS:
        notes.append(
            f"the load generator fell behind: 1% of the time it was more than {lag:.0f} ms late, which latency "
            "includes; give it more of the machine, fewer edges, a lower speed or more events per request"
        )
    elif total.queued > MAX_QUEUED_SHARE * max(1, total.requests + total.failures):
        notes.append(
            f"{total.queued} requests waited for a free connection, which latency includes; with more connections the "
            "edges would have had more to do at once"
        )
    errors = [(f"{e.edge}: {text}", count) for e in result.edges for text, count in e.errors.items()]
    notes += [f"{text} ({count} times)" for text, count in sorted(errors, key=lambda e: -e[1])[:MAX_ERROR_NOTES]]
    return msgspec.structs.replace(result, notes=tuple(notes))
