"""What is counted and timed while one edge is asked and told."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.metrics import mean
from alphaedge.replay.result import EdgeResult, Feedback, Figures, Latency
from alphaedge.replay.scores import Scores

LATELY: Final = 1000  # requests whose latencies are shown while it runs
MOST_ERRORS: Final = 10  # different ones that are kept


@final
@dataclass
class Counts:
    """One edge's counts. Times are in seconds; ``at`` counts from the start of the replay."""

    scores: Scores
    planned: int
    latency: list[float] = field(default_factory=list)
    service: list[float] = field(default_factory=list)
    feedback_latency: list[float] = field(default_factory=list)
    crowded: int = 0
    failures: int = 0
    told: Feedback = field(default_factory=Feedback)
    errors: Counter[str] = field(default_factory=Counter)
    last: float = 0.0  # when the last answer came

    def went_wrong(self, error: Exception) -> None:
        """Remember a kind of error and how often it came."""
        text = str(error)
        if text in self.errors or len(self.errors) < MOST_ERRORS:
            self.errors[text] += 1
        else:
            self.errors["others"] += 1

    def heard(self, counts: FeedbackCounts, waited: Sequence[float], at: float) -> None:
        """The edge has been told of outcomes. waited: since each was due."""
        self.told += Feedback(
            accepted=counts.accepted, known=counts.known, expired=counts.expired, unknown=counts.unknown
        )
        self.feedback_latency += waited
        self.last = at

    def figures(self, edge: str, url: str, *, retries: int, undelivered: int, gave_up: str | None) -> EdgeResult:
        """What came of it so far."""
        return EdgeResult(
            edge=edge,
            url=url,
            planned=self.planned,
            events=self.scores.predicted,
            requests=len(self.latency),
            failures=self.failures,
            retries=retries,
            per_second=len(self.latency) / self.last if self.last > 0 else 0.0,
            feedback=self.told + Feedback(undelivered=undelivered),
            score=self.scores.mean(),
            pooled=self.scores.pooled(),
            latency=Latency.of(self.latency),
            service=Latency.of(self.service),
            feedback_latency=Latency.of(self.feedback_latency),
            crowded=self.crowded,
            series=tuple(self.scores.points),
            errors=dict(self.errors),
            gave_up=gave_up,
        )


def summed(tallies: Sequence[Counts], edges: Sequence[EdgeResult], seconds: float) -> Figures:
    """The figures of all edges: sums, percentiles of all requests, means of scores over edges."""
    requests = sum(e.requests for e in edges)
    return Figures(
        planned=sum(e.planned for e in edges),
        events=sum(e.events for e in edges),
        requests=requests,
        failures=sum(e.failures for e in edges),
        retries=sum(e.retries for e in edges),
        per_second=requests / seconds if seconds > 0 else 0.0,
        feedback=sum((e.feedback for e in edges), Feedback()),
        score=mean([e.score for e in edges if e.score is not None]),
        pooled=mean([e.pooled for e in edges if e.pooled is not None]),
        latency=Latency.of([s for t in tallies for s in t.latency]),
        service=Latency.of([s for t in tallies for s in t.service]),
        feedback_latency=Latency.of([s for t in tallies for s in t.feedback_latency]),
        crowded=sum(e.crowded for e in edges),
    )
