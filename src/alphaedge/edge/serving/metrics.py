"""The Prometheus metrics at ``/metrics``: the server's own numbers, and the learner's from its status file.

No ids and no features. Names of edges and regions are the only labels that come from outside.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from alphaedge.edge.serving.limits import Reason
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, ServerStatus, read_learner_status
from alphaedge.inference.feedback import FeedbackCounts

ENDPOINTS: Final = ("infer", "feedback", "ready", "live")
CONNECTION: Final = "connection"  # the endpoint of what is refused before its request is known
LATENCY_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
LAG_BUCKETS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)  # seconds
RECENT_SECONDS, MAX_RECENT_REQUESTS = 30.0, 1000  # requests whose latency is the recent one


@final
class Metrics:
    """The metrics of one edge. status: its learner's status file. pending: counts predictions without a label."""

    def __init__(self, status: Path, pending: Callable[[], int], clock: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter(
            "alphaedge_requests", "Requests answered, by endpoint and HTTP status", ["endpoint", "status"], **common
        )
        self._seconds = Histogram(
            "alphaedge_request_seconds",
            "Time to answer a request, by endpoint",
            ["endpoint"],
            buckets=LATENCY_BUCKETS,
            **common,
        )
        self._refused = Counter(
            "alphaedge_refused_requests",
            "Requests and connections that a limit refused, by endpoint and reason",
            ["endpoint", "reason"],
            **common,
        )
        self._predictions = Counter("alphaedge_predictions", "Examples predicted", **common)
        self._feedback = Counter("alphaedge_feedback", "Labels received, by result", ["result"], **common)
        self._lag = Histogram(
            "alphaedge_feedback_lag_seconds", "Time from a prediction to its label", buckets=LAG_BUCKETS, **common
        )
        waiting = Gauge("alphaedge_pending_predictions", "Predictions without a label", **common)
        waiting.set_function(pending)
        self.registry.register(_LearnerCollector(status, clock))
        self._pending, self._clock = pending, clock
        self._answered = 0
        self._recent: deque[tuple[float, float]] = deque(maxlen=MAX_RECENT_REQUESTS)  # when, and how long it took
        self._series: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        for result in FeedbackCounts.__struct_fields__:
            self._feedback.labels(result)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answered request. endpoint: the last part of its path."""
        endpoint = endpoint if endpoint in ENDPOINTS else "other"
        series = self._series.get((endpoint, status))
        if series is None:  # kept, because looking it up by its labels takes longer than counting
            series = self._series[endpoint, status] = (
                self._requests.labels(endpoint, str(status)),
                self._seconds.labels(endpoint),
            )
        series[0].inc()
        series[1].observe(seconds)
        if endpoint == "infer" and status == 200:
            self._answered += 1
            self._recent.append((self._clock(), seconds))

    def count_refused(self, endpoint: str, reason: Reason) -> None:
        """Count what a limit refused. endpoint: the last part of its path, or ``connection`` before there is one."""
        endpoint = endpoint if endpoint in (*ENDPOINTS, CONNECTION) else "other"
        self._refused.labels(endpoint, reason).inc()

    def server_status(self) -> ServerStatus:
        """The server's numbers for its learner: answered predictions, and the latency of recent ones."""
        since = self._clock() - RECENT_SECONDS
        seconds = sorted(s for moment, s in self._recent if moment > since)
        p50, p99 = (1e3 * seconds[int(q * (len(seconds) - 1))] for q in (0.5, 0.99)) if seconds else (None, None)
        return ServerStatus(requests=self._answered, p50=p50, p99=p99, pending=self._pending())

    def count_predictions(self, examples: int) -> None:
        """Count predicted examples."""
        self._predictions.inc(examples)

    def count_feedback(self, counts: FeedbackCounts, lags: Iterable[float]) -> None:
        """Count labels. lags: of those that were accepted, the seconds since their predictions."""
        for result, count in msgspec.structs.asdict(counts).items():
            self._feedback.labels(result).inc(count)
        for seconds in lags:
            self._lag.observe(seconds)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


@final
class _LearnerCollector(Collector):
    """The learner's numbers, read from its status file at each scrape."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock

    def collect(self) -> Iterable[Metric]:
        status = read_learner_status(self._path)
        if status is None:
            return []
        return [*_learner_metrics(status, self._clock()), *_peer_metrics(status, self._clock())]


def _learner_metrics(status: LearnerStatus, now: float) -> Iterable[Metric]:
    info = GaugeMetricFamily(
        "alphaedge_edge_info", "Always 1; name, region and schema of this edge", labels=["edge", "region", "schema"]
    )
    info.add_metric([status.edge, status.region, status.schema], 1)
    yield info
    for name, text, value in (
        ("alphaedge_learner_silence_seconds", "Time since the learner last wrote its status", now - status.written),
        # No counter: a rollback takes examples back.
        ("alphaedge_records", "Examples that the mixed model has learned from", status.records),
        (
            "alphaedge_score",
            "Mean score of all batches since the edge went live, each scored before it was learned from",
            status.score,
        ),
        (
            "alphaedge_gain",
            "Score above that of the home model alone on the same batches; NaN without a home model",
            math.nan if status.gain is None else status.gain,
        ),
        ("alphaedge_own_share", "Share of this edge's own model in the last mix", status.own_share),
        ("alphaedge_home_share", "Share of the home model in predictions", status.home_share),
        (
            "alphaedge_certificate_days",
            "Days until this edge's certificate expires; NaN without one",
            math.nan if status.certificate_days is None else status.certificate_days,
        ),
        (
            "alphaedge_privacy_epsilon",
            "What was spent on a user who took part in every window; NaN without privacy",
            math.nan if status.privacy_epsilon is None else status.privacy_epsilon,
        ),
        ("alphaedge_privacy_windows", "Windows in which something was published privately", status.privacy_windows),
        ("alphaedge_privacy_budget_spent", "1 if nothing new is published any more", status.budget_spent),
        ("alphaedge_clock_skew_seconds", "Time that this edge's clock is ahead of the fleet's", status.clock_skew),
        ("alphaedge_revocation_list", "Number of the revocation list in force; 0 without one", status.revocations),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, count in (
        ("alphaedge_batches", "Batches learned", status.batches),
        ("alphaedge_aggregations", "Aggregations", status.aggregations),
        ("alphaedge_undone_batches", "Batches undone, because the model would have broken", status.batches_undone),
        ("alphaedge_rollbacks", "Returns to an earlier state, after several undone batches", status.rollbacks),
        ("alphaedge_resets", "Starts of the mixed model anew from the home model", status.resets),
        ("alphaedge_scored_batches", "Batches with a score", status.scores),
        ("alphaedge_adopted_rows", "Rows of new ids that were adopted from peers", status.adopted_rows),
        ("alphaedge_refused_announcements", "Announcements of other edges refused", status.announcements_refused),
    ):
        yield CounterMetricFamily(name, text, value=count)
    yield SummaryMetricFamily(
        "alphaedge_hand_over_seconds",
        "Time to hand new parameters over to the server",
        count_value=status.hand_overs,
        sum_value=status.hand_over_seconds,
    )
    yield SummaryMetricFamily(
        "alphaedge_aggregation_seconds",
        "Time of an aggregation, including its pulls",
        count_value=status.timed_aggregations,
        sum_value=status.aggregation_seconds,
    )


def _peer_metrics(status: LearnerStatus, now: float) -> Iterable[Metric]:
    gauges: dict[str, tuple[str, Callable[[PeerStatus], float]]] = {
        "alphaedge_peer_alive": ("1 if the peer is alive", lambda p: p.alive),
        "alphaedge_peer_mixes": ("1 if the peer has the same schema", lambda p: p.mixes),
        "alphaedge_peer_neighbour": ("1 if this edge pulls from the peer", lambda p: p.neighbour),
        "alphaedge_peer_clock_skew_seconds": (
            "Time that the peer's clock is ahead of this edge's",
            lambda p: p.clock_skew,
        ),
        "alphaedge_peer_excluded": (
            "1 if the peer's model takes no part for some rounds, because it does harm or does not come",
            lambda p: bool(p.excluded),
        ),
        "alphaedge_peer_share": ("Share of the peer's model in the last mix", lambda p: p.share),
        "alphaedge_peer_stale_publications": (
            "Publications of the peer since the one that was mixed last",
            lambda p: max(0, p.publication - p.held) if p.held else 0,
        ),
        "alphaedge_peer_stale_seconds": (
            "Time since the peer's model was last pulled; -1 if never",
            lambda p: now - p.pulled if p.pulled else -1.0,
        ),
    }
    for name, (text, value) in gauges.items():
        gauge = GaugeMetricFamily(name, text, labels=["peer", "region"])
        for edge, peer in status.peers.items():
            gauge.add_metric([edge, peer.region], value(peer))
        yield gauge
    counters: dict[str, tuple[str, Callable[[PeerStatus], float]]] = {
        "alphaedge_peer_pulls": ("Models pulled from the peer", lambda p: p.pulls),
        "alphaedge_peer_failures": ("Pulls from the peer that failed", lambda p: p.failures),
        "alphaedge_refused_models": ("Models of the peer refused", lambda p: p.refused),
    }
    for name, (text, value) in counters.items():
        counter = CounterMetricFamily(name, text, labels=["peer", "region"])
        for edge, peer in status.peers.items():
            counter.add_metric([edge, peer.region], value(peer))
        yield counter
    sizes = CounterMetricFamily("alphaedge_peer_bytes", "Bytes of pulls, by kind", labels=["peer", "region", "kind"])
    for edge, peer in status.peers.items():
        for kind, count in (("request", peer.request_bytes), ("dense", peer.dense_bytes), ("rows", peer.row_bytes)):
            sizes.add_metric([edge, peer.region, kind], count)
    yield sizes
    hits = CounterMetricFamily(
        "alphaedge_peer_limit_hits",
        "Requests and connections of the peer that a limit refused",
        labels=["peer", "limit"],
    )
    for edge, limits in status.limit_hits.items():
        for limit, count in limits.items():
            hits.add_metric([edge, limit], count)
    yield hits
