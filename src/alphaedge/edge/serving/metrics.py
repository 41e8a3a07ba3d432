"""What Prometheus is told at ``/metrics``: the server's own numbers, and the learner's as its status file has them.

No ids, no features: names of edges are the only labels that come from outside.
"""

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from alphaedge.edge.store.status import LearnerStatus, PeerStatus, ServerStatus, read

ENDPOINTS: Final = ("infer", "feedback", "ready", "live")
LATENCIES: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LATELY, MOST_LATELY = 30.0, 1000  # seconds, and requests, whose latency is that of now
LAGS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)
OUTCOMES: Final = ("accepted", "known", "expired", "unknown")


@final
class Metrics:
    """The numbers of one edge. status: the file that its learner writes. pending: predictions without an outcome."""

    def __init__(self, status: Path, pending: Callable[[], int], clock: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter(
            "alphaedge_requests", "Requests answered, by endpoint and HTTP status", ["endpoint", "status"], **common
        )
        self._seconds = Histogram(
            "alphaedge_request_seconds", "Time to answer, by endpoint", ["endpoint"], buckets=LATENCIES, **common
        )
        self._predictions = Counter("alphaedge_predictions", "Examples predicted", **common)
        self._feedback = Counter("alphaedge_feedback", "Outcomes told, by what became of them", ["result"], **common)
        self._lag = Histogram(
            "alphaedge_feedback_lag_seconds", "From a prediction to its outcome", buckets=LAGS, **common
        )
        waiting = Gauge("alphaedge_pending_predictions", "Predictions that wait for an outcome", **common)
        waiting.set_function(pending)
        self.registry.register(_Learner(status, clock))
        self._pending, self._clock = pending, clock
        self._answered = 0
        self._lately: deque[tuple[float, float]] = deque(maxlen=MOST_LATELY)  # when, and how long it took
        self._series: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        for result in OUTCOMES:
            self._feedback.labels(result)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """A request was answered, at the endpoint that its path ends with."""
        endpoint = endpoint if endpoint in ENDPOINTS else "other"
        found = self._series.get((endpoint, status))
        if found is None:  # to look them up takes longer than to count
            found = self._series[endpoint, status] = (
                self._requests.labels(endpoint, str(status)),
                self._seconds.labels(endpoint),
            )
        found[0].inc()
        found[1].observe(seconds)
        if endpoint == "infer" and status == 200:
            self._answered += 1
            self._lately.append((self._clock(), seconds))

    def lately(self) -> ServerStatus:
        """The server's numbers for its learner: all predictions answered, and the latency of the latest."""
        since = self._clock() - LATELY
        seconds = sorted(s for moment, s in self._lately if moment > since)
        p50, p99 = (1e3 * seconds[int(q * (len(seconds) - 1))] for q in (0.5, 0.99)) if seconds else (None, None)
        return ServerStatus(requests=self._answered, p50=p50, p99=p99, pending=self._pending())

    def predicted(self, examples: int) -> None:
        """Examples were predicted."""
        self._predictions.inc(examples)

    def told(self, counts: dict[str, int], lags: Iterable[float]) -> None:
        """Outcomes were told; those that were accepted came so many seconds after their predictions."""
        for result, count in counts.items():
            self._feedback.labels(result).inc(count)
        for seconds in lags:
            self._lag.observe(seconds)

    def page(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


@final
class _Learner(Collector):
    """The learner's numbers, read from its status file when somebody asks."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock

    def collect(self) -> Iterable[Metric]:
        status = read(self._path)
        if status is None:
            return []
        return [*_own(status, self._clock()), *_peers(status, self._clock())]


def _own(status: LearnerStatus, now: float) -> Iterable[Metric]:
    about = GaugeMetricFamily("alphaedge_edge", "Always 1; who this is", labels=["edge", "region", "schema"])
    about.add_metric([status.edge, status.region, status.schema], 1)
    yield about
    for name, text, value in (
        ("alphaedge_learner_silence_seconds", "Since the learner last said how it is doing", now - status.written),
        ("alphaedge_score", "Mean score of batches, predicted before anything was learned from them", status.score),
        ("alphaedge_own_share", "Share of the own model in the last mix", status.own_share),
        ("alphaedge_home_share", "Share that the model which never mixes has in predictions", status.home_share),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, count in (
        ("alphaedge_batches", "Batches learned", status.batches),
        ("alphaedge_records", "Outcomes that the mixed model was trained on", status.records),
        ("alphaedge_aggregations", "Aggregations", status.aggregations),
        ("alphaedge_scored_batches", "Batches that have a score", status.scores),
        ("alphaedge_adopted_rows", "Rows of new ids that were taken from peers at first sight", status.adopted),
        ("alphaedge_refused_records", "Records of other edges that were not believed", status.records_refused),
    ):
        yield CounterMetricFamily(name, text, value=count)
    yield SummaryMetricFamily(
        "alphaedge_swap_seconds",
        "Time to hand new parameters over to the server",
        count_value=status.handed_over,
        sum_value=status.hand_over_seconds,
    )
    yield SummaryMetricFamily(
        "alphaedge_aggregation_seconds",
        "Time of an aggregation, pulls included",
        count_value=status.aggregations_timed,
        sum_value=status.aggregation_seconds,
    )


def _peers(status: LearnerStatus, now: float) -> Iterable[Metric]:
    gauges: dict[str, tuple[str, Callable[[PeerStatus], float]]] = {
        "alphaedge_peer_alive": ("Whether an edge is there", lambda p: p.alive),
        "alphaedge_peer_mixes": ("Whether it has the same schema", lambda p: p.mixes),
        "alphaedge_peer_neighbour": ("Whether this edge takes from it", lambda p: p.neighbour),
        "alphaedge_peer_weight": ("Its share of the last mix", lambda p: p.share),
        "alphaedge_peer_stale_publications": (
            "Publications by which what was mixed in last is behind",
            lambda p: max(0, p.publication - p.held) if p.held else 0,
        ),
        "alphaedge_peer_stale_seconds": (
            "Since its model was last pulled; -1 if never",
            lambda p: now - p.pulled if p.pulled else -1.0,
        ),
    }
    for name, (text, value) in gauges.items():
        family = GaugeMetricFamily(name, text, labels=["peer", "region"])
        for edge, peer in status.peers.items():
            family.add_metric([edge, peer.region], value(peer))
        yield family
    counters: dict[str, tuple[str, Callable[[PeerStatus], float]]] = {
        "alphaedge_peer_pulls": ("Models pulled", lambda p: p.pulls),
        "alphaedge_peer_failures": ("Pulls that failed", lambda p: p.failures),
        "alphaedge_refused_models": ("Models that were not believed", lambda p: p.refused),
    }
    for name, (text, value) in counters.items():
        counter = CounterMetricFamily(name, text, labels=["peer", "region"])
        for edge, peer in status.peers.items():
            counter.add_metric([edge, peer.region], value(peer))
        yield counter
    sent = CounterMetricFamily("alphaedge_peer_bytes", "Bytes of pulls, by kind", labels=["peer", "region", "kind"])
    for edge, peer in status.peers.items():
        for kind in ("request", "dense", "rows"):
            count = {"request": peer.request_bytes, "dense": peer.dense_bytes, "rows": peer.row_bytes}[kind]
            sent.add_metric([edge, peer.region, kind], count)
    yield sent
