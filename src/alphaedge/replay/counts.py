"""Counts and latencies of one edge, collected while a replay runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.replay.result import EdgeResult, FeedbackTotals, Latency, Measurements
from alphaedge.replay.scores import StreamScores
from alphaedge.scoring import mean

RECENT_REQUESTS: Final = 1000  # whose latencies are shown while it runs
MAX_ERRORS: Final = 10  # different ones that are counted apart


@final
@dataclass
class EdgeCounts:
    """One edge's counts. Latencies are in seconds; last_answer_at counts from the start of the replay.

    The other fields are those of ``Measurements``.
    """

    scores: StreamScores
    planned: int
    latency: list[float] = field(default_factory=list)
    service: list[float] = field(default_factory=list)
    feedback_latency: list[float] = field(default_factory=list)
    queued: int = 0
    failures: int = 0
    feedback: FeedbackTotals = field(default_factory=FeedbackTotals)
    errors: Counter[str] = field(default_factory=Counter)
    last_answer_at: float = 0.0

    def record_error(self, error: Exception) -> None:
        """Count an error by its text."""
        text = str(error)
        known = text in self.errors or len(self.errors) < MAX_ERRORS
        self.errors[text if known else "others"] += 1

    def record_feedback(self, counts: FeedbackCounts, delays: Sequence[float], at: float) -> None:
        """Count labels that the edge has answered. delays: seconds since each group's labels were known."""
        self.feedback += FeedbackTotals(
            accepted=counts.accepted, known=counts.known, expired=counts.expired, unknown=counts.unknown
        )
        self.feedback_latency += delays
        self.last_answer_at = at

    def result(self, edge: str, url: str, *, retries: int, undelivered: int, gave_up: str | None) -> EdgeResult:
        """Return the edge's result until now."""
        return EdgeResult(
            edge=edge,
            url=url,
            planned=self.planned,
            events=self.scores.prediction_count,
            requests=len(self.latency),
            failures=self.failures,
            retries=retries,
            per_second=len(self.latency) / self.last_answer_at if self.last_answer_at > 0 else 0.0,
            feedback=self.feedback + FeedbackTotals(undelivered=undelivered),
            score=self.scores.mean(),
            pooled=self.scores.pooled(),
            latency=Latency.from_seconds(self.latency),
            service=Latency.from_seconds(self.service),
            feedback_latency=Latency.from_seconds(self.feedback_latency),
            queued=self.queued,
            series=tuple(self.scores.points),
            errors=dict(self.errors),
            gave_up=gave_up,
        )


def sum_up(counts: Sequence[EdgeCounts], edges: Sequence[EdgeResult], seconds: float) -> Measurements:
    """Return the numbers of all edges: sums, percentiles over all requests, means of scores over edges."""
    requests = sum(e.requests for e in edges)
    return Measurements(
        planned=sum(e.planned for e in edges),
        events=sum(e.events for e in edges),
        requests=requests,
        failures=sum(e.failures for e in edges),
        retries=sum(e.retries for e in edges),
        per_second=requests / seconds if seconds > 0 else 0.0,
        feedback=sum((e.feedback for e in edges), FeedbackTotals()),
        score=mean([e.score for e in edges if e.score is not None]),
        pooled=mean([e.pooled for e in edges if e.pooled is not None]),
        latency=Latency.from_seconds([s for c in counts for s in c.latency]),
        service=Latency.from_seconds([s for c in counts for s in c.service]),
        feedback_latency=Latency.from_seconds([s for c in counts for s in c.feedback_latency]),
        queued=sum(e.queued for e in edges),
    )
