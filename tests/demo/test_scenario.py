"""The scenario of a demonstration, its workload, and its summary."""

import numpy as np
import pytest

from alphaedge.data.synthetic import Store, synthetic
from alphaedge.demo.fleet import cities
from alphaedge.demo.run import lagging_edges
from alphaedge.demo.scenario import Incident, hostile_labels, make_scenario
from alphaedge.demo.summary import down_seconds
from alphaedge.demo.workload import make_store, make_workload
from alphaedge.errors import InvalidValue
from alphaedge.monitoring.frames import FleetEvent
from alphaedge.monitoring.vitals import EdgeView, Vitals

NAMES = list(cities(6))


def test_an_edge_turns_hostile_one_is_killed_and_comes_back_and_a_link_is_cut() -> None:
    clusters = {name: number % 2 for number, name in enumerate(NAMES)}
    scenario = make_scenario(NAMES, clusters)
    assert [i.kind for i in sorted(scenario, key=lambda i: i.at)] == ["hostile", "kill", "restart", "cut"]
    hostile, killed, restarted, cut = scenario
    assert killed.edge == restarted.edge
    assert len({hostile.edge, killed.edge, cut.edge, cut.peer}) == 4
    assert clusters[hostile.edge] == clusters[cut.edge] == clusters[cut.peer] != clusters[killed.edge]
    assert all(incident.edge in incident.describe() for incident in scenario)


def test_a_fleet_of_three_has_no_incidents() -> None:
    assert make_scenario(NAMES[:3], {}) == []


def test_the_labels_of_a_hostile_edge_are_flipped_from_its_incident_on() -> None:
    scenario = make_scenario(NAMES, {})
    hostile = next(incident for incident in scenario if incident.kind == "hostile")
    alter = hostile_labels(scenario, dict.fromkeys(NAMES, 100), lambda labels: 1.0 - labels)
    labels = np.array([0.0, 1.0, 1.0], dtype=np.float32)
    first = int(hostile.at * 100)
    assert alter(hostile.edge, first - 1, labels).tolist() == [0.0, 1.0, 1.0]
    assert alter(hostile.edge, first, labels).tolist() == [1.0, 0.0, 0.0]
    assert alter(NAMES[-1], 99, labels).tolist() == [0.0, 1.0, 1.0]


def test_a_workload_has_the_events_that_fit_into_the_time_and_a_model_for_them() -> None:
    made = make_workload(make_store(6, 30.0), NAMES, "shop", 30.0)
    assert list(made.streams) == NAMES
    assert 0.7 < sum(map(len, made.streams.values())) / (270 * 30) <= 1.0
    assert [f["name"] for f in made.model["fields"]] == ["user", "item", "category", "numbers"]
    assert made.method == {"aggregate_every": 5, "peers": 2, "weight_rate": 0.5}
    assert sorted(set(made.clusters.values())) == [0, 1]


def test_more_edges_than_the_data_has_are_refused() -> None:
    with pytest.raises(InvalidValue, match="edges: found 6; allowed: at most 2"):
        make_workload(synthetic(Store(edges=2, events=50)), NAMES, "shop", 10.0)


def test_an_edge_is_down_from_its_kill_until_it_answers_again() -> None:
    incidents = [
        (3.0, Incident(0.3, "kill", "a")),
        (5.0, Incident(0.4, "kill", "b")),
        (11.0, Incident(0.5, "restart", "a")),
    ]
    answers = [FleetEvent(time=at, edge=edge, kind="up") for at, edge in ((1.0, "a"), (14.0, "b"), (15.0, "a"))]
    assert down_seconds(incidents, answers, "a") == 12.0
    assert down_seconds(incidents, answers[:2], "a") == 8.0, "nobody noticed that it was down"
    assert down_seconds(incidents, answers, "b") == 0.0, "it was never started again"
    assert down_seconds(incidents, answers, "c") == 0.0


def test_an_edge_lags_until_it_reports_all_batches_that_its_labels_make() -> None:
    state = {name: EdgeView(region="DE", alive=True, vitals=Vitals(batches=2)) for name in ("a", "b")}
    assert lagging_edges(state, {"a": 59, "b": 60, "unseen": 20}, batch_size=20) == ["b", "unseen"]
    assert lagging_edges(state, {"a": 40, "unseen": 19}, batch_size=20) == []
