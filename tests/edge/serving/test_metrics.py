"""The metrics and the log of a running edge."""

import io
import json
import logging
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alphaedge.edge import log
from alphaedge.edge.store.status import read_learner_status

from ..processes import BATCH, EVERY, Edge, events, fleet_of, send, teach, tell, wait_for

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics(edge: Edge) -> Samples:
    with urllib.request.urlopen(edge.url + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def heard(edge: Edge, peer: str) -> bool:
    status = read_learner_status(edge.folder / "data" / "status.json")
    return status is not None and peer in status.peers and status.peers[peer].publication > 0


def pulled(edge: Edge, peer: str) -> bool:
    status = read_learner_status(edge.folder / "data" / "status.json")
    return status is not None and peer in status.peers and status.peers[peer].pulls > 0


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")]) as (berlin, boston):
        rounds = 0
        while rounds < 3 or (rounds < 10 and not pulled(berlin, "boston")):  # a busy machine may miss a deadline
            for edge in (berlin, boston):
                teach(edge, 1, seed=rounds)
            wait_for(lambda: heard(berlin, "boston"), "berlin to see a publication of boston")
            rounds += 1
        learned = rounds * EVERY * BATCH
        waiting = send(berlin, events(7))
        tell(berlin, [(10**9, 1.0)])
        berlin.post("/v2/models/shop/infer", b"nonsense")

        def shown() -> bool:
            status = read_learner_status(berlin.folder / "data" / "status.json")
            return status is not None and status.aggregations == rounds and status.batches == rounds * EVERY

        wait_for(shown, "the learner to report it")
        found = metrics(berlin)
        assert value(found, "alphaedge_predictions_total") == learned + len(waiting)
        assert value(found, "alphaedge_pending_predictions") == len(waiting)
        assert value(found, "alphaedge_feedback_total", result="accepted") == learned
        assert value(found, "alphaedge_feedback_total", result="unknown") == 1
        assert value(found, "alphaedge_feedback_lag_seconds_count") == learned
        assert value(found, "alphaedge_requests_total", endpoint="infer", status="400") == 1
        assert value(found, "alphaedge_request_seconds_count", endpoint="infer") == rounds + 2
        assert value(found, "alphaedge_batches_total") == rounds * EVERY
        assert value(found, "alphaedge_aggregations_total") == rounds
        assert value(found, "alphaedge_hand_over_seconds_count") >= rounds * EVERY
        assert value(found, "alphaedge_hand_over_seconds_sum") > 0
        assert 0 < value(found, "alphaedge_score") < 1
        assert -1 < value(found, "alphaedge_gain") < 1, "there is a home model to compare with"
        boston_ = {"peer": "boston", "region": "US"}
        assert value(found, "alphaedge_peer_alive", **boston_) == 1
        share, own = value(found, "alphaedge_peer_share", **boston_), value(found, "alphaedge_own_share")
        assert share + own == pytest.approx(1), "these are the two parts of the last mix; a learned weight may be 0"
        assert value(found, "alphaedge_peer_stale_seconds", **boston_) >= 0
        assert value(found, "alphaedge_peer_pulls_total", **boston_) >= 1
        assert value(found, "alphaedge_refused_models_total", **boston_) == 0
        for kind in ("request", "dense", "rows"):
            assert value(found, "alphaedge_peer_bytes_total", kind=kind, **boston_) > 0
        silent = value(found, "alphaedge_learner_silence_seconds")
        assert silent >= 0
        berlin.kill()
        berlin.start()
        assert value(metrics(berlin), "alphaedge_pending_predictions") == len(waiting), "counted again from the journal"


def test_events_are_lines_of_json_or_text() -> None:
    before = logging.getLogger().handlers, log.LOGGER.handlers
    try:
        for style in ("json", "text"):
            stream = io.StringIO()
            log.configure("berlin", "learner", style, stream)  # type: ignore[arg-type]
            log.info("aggregated", shares={"boston": 0.5})
            log.warn("peer_model_refused", peer="boston", reason=ValueError("not finite"))
            logging.getLogger("uvicorn.error").error("port in use")
            lines = stream.getvalue().splitlines()
            assert len(lines) == 3
            if style == "json":
                first, second, third = map(json.loads, lines)
                assert (first["level"], first["edge"], first["event"]) == ("info", "berlin", "aggregated")
                assert first["shares"] == {"boston": 0.5}
                assert (second["level"], second["reason"]) == ("warning", "not finite")
                assert third["event"] == "port in use"
            else:
                assert "berlin/learner warning: peer_model_refused peer=boston reason=not finite" in lines[1]
    finally:
        logging.getLogger().handlers, log.LOGGER.handlers = before
