"""The story of a demonstration, and the numbers that are read off it."""

import numpy as np
import pytest

from alphaedge.data.synthetic import Store, synthetic
from alphaedge.demo.fleet import cities
from alphaedge.demo.numbers import dark, learned_alone, reactions
from alphaedge.demo.run import lagging
from alphaedge.demo.story import Scene, story, taught
from alphaedge.demo.world import BATCH, store, world
from alphaedge.errors import InvalidValue
from alphaedge.monitoring.frames import Frame
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

NAMES = list(cities(6))


def test_one_edge_turns_hostile_one_goes_dark_and_comes_back_and_one_link_is_cut() -> None:
    scenes = story(NAMES, {name: number % 2 for number, name in enumerate(NAMES)})
    assert [scene.kind for scene in sorted(scenes, key=lambda s: s.at)] == ["hostile", "kill", "restart", "cut"]
    hostile, killed, back, cut = scenes
    assert killed.edge == back.edge
    assert len({hostile.edge, killed.edge, cut.edge, cut.peer}) == 4
    groups = {name: number % 2 for number, name in enumerate(NAMES)}
    assert groups[hostile.edge] == groups[cut.edge] == groups[cut.peer] != groups[killed.edge]
    assert all(scene.edge in scene.text for scene in scenes)


def test_a_fleet_of_three_has_no_story() -> None:
    assert story(NAMES[:3], {}) == []


def test_a_hostile_edge_is_told_the_opposite_from_its_moment_on() -> None:
    scenes = story(NAMES, {})
    hostile = next(scene for scene in scenes if scene.kind == "hostile")
    told = taught(scenes, dict.fromkeys(NAMES, 100), (0.0, 1.0))
    labels = np.array([0.0, 1.0, 1.0], dtype=np.float32)
    first = int(hostile.at * 100)
    assert told(hostile.edge, first - 1, labels).tolist() == [0.0, 1.0, 1.0]
    assert told(hostile.edge, first, labels).tolist() == [1.0, 0.0, 0.0]
    assert told(NAMES[-1], 99, labels).tolist() == [0.0, 1.0, 1.0]
    assert taught(scenes, {hostile.edge: 1}, (2.0, 10.0))(hostile.edge, 1, np.float32([3.0])).tolist() == [9.0]


def seen(aggregations: int, **shares: float) -> EdgeView:
    links = {peer: Link(share=share) for peer, share in shares.items()}
    vitals = Vitals(aggregations=aggregations, neighbours=tuple(shares), links=links)
    return EdgeView(region="DE", alive=True, vitals=vitals)


def test_a_reaction_is_counted_in_mixes_until_the_share_is_below_two_percent() -> None:
    frames = [
        Frame(time=1.0, edges={"a": seen(4, mad=0.3), "b": seen(4, mad=0.01), "c": seen(3, mad=0.2)}),
        Frame(time=3.0, edges={"a": seen(5, mad=0.1), "b": seen(5, mad=0.0)}),
        Frame(time=4.0, edges={"a": seen(7, mad=0.019), "c": seen(8, mad=0.1)}),
        Frame(time=5.0, edges={"a": seen(9, mad=0.05)}),
    ]
    found = {r.edge: (r.share, r.aggregations) for r in reactions(frames, [(2.0, "mad")])}
    assert found == {"a": (0.3, 3), "c": (0.2, None)}


def test_a_peer_that_is_let_go_has_no_share() -> None:
    frames = [Frame(time=1.0, edges={"a": seen(4, mad=0.3)}), Frame(time=3.0, edges={"a": seen(6, other=0.5)})]
    assert [r.aggregations for r in reactions(frames, [(2.0, "mad")])] == [2]


def test_a_world_has_the_events_that_fit_into_the_time_and_a_model_that_fits_them() -> None:
    made = world(store(6, 30.0), NAMES, "shop", 30.0)
    assert list(made.streams) == NAMES
    assert 0.7 < sum(map(len, made.streams.values())) / (270 * 30) <= 1.0
    assert [f["name"] for f in made.model["fields"]] == ["user", "item", "category", "numbers"]
    assert made.method == {"aggregate_every": 5, "peers": 2, "weight_rate": 0.5}
    assert sorted(set(made.alike.values())) == [0, 1]


def test_more_edges_than_the_data_has_are_refused() -> None:
    with pytest.raises(InvalidValue, match="edges: found 6; allowed: at most 2"):
        world(synthetic(Store(edges=2, events=50)), NAMES, "shop", 10.0)


def test_what_edges_reach_alone_is_a_score_for_each() -> None:
    made = world(store(3, 20.0), NAMES[:3], "shop", 20.0)
    found = learned_alone(made.data, made.streams, made.model, batch_size=BATCH)
    assert list(found) == NAMES[:3]
    assert all(score is not None and 0.5 < score < 1 for score in found.values())


def test_an_edge_is_dark_from_its_kill_to_its_start() -> None:
    scenes = [(3.0, Scene(0.3, "kill", "a")), (5.0, Scene(0.4, "kill", "b")), (11.0, Scene(0.5, "restart", "a"))]
    assert dark(scenes, "a") == 8.0
    assert dark(scenes, "b") == 0.0, "it never came back: there is no such time"
    assert dark(scenes, "c") == 0.0


def test_an_edge_lags_until_it_reports_all_batches_that_its_labels_make() -> None:
    state = {name: EdgeView(region="DE", alive=True, vitals=Vitals(batches=2)) for name in ("a", "b")}
    assert lagging(state, {"a": 59, "b": 60, "unseen": 20}, batch_size=20) == ["b", "unseen"]
    assert lagging(state, {"a": 40, "unseen": 19}, batch_size=20) == []
