"""Partial views, hints and pullers do what the page on internet scale says; costs are those of real messages."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from alphaedge.edge.directory.exchange import Digest
from alphaedge.edge.trust.heartbeats import Heartbeat
from benchmarks.internet import budget, costs
from benchmarks.internet.draws import Hints
from benchmarks.internet.partial_views import DRAWER, PartialViews
from benchmarks.internet.selection import draw_pullers
from benchmarks.internet.selection_runs import DESIGN, Scenario, run
from benchmarks.internet.worlds import NOBODY, plant


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> costs.Costs:
    return costs.measure(tmp_path_factory.mktemp("certificates"), edges=100, repeat=6)


def together(edges: int) -> np.ndarray:
    return np.zeros(edges, np.int32)


def test_a_view_never_holds_its_own_edge_or_another_one_twice() -> None:
    rng = np.random.default_rng(0)
    views = PartialViews.start(300, rng)
    assert not (views.known == np.arange(300)[:, None]).any()
    for _ in range(60):
        views.shuffle(together(300), rng)
    for edge, row in enumerate(views.known.tolist()):
        known = [one for one in row if one != NOBODY]
        assert edge not in known
        assert len(set(known)) == len(known) > len(row) // 2


def test_every_edge_stays_known_to_some_and_to_not_too_many() -> None:
    rng = np.random.default_rng(0)
    views = PartialViews.start(1_000, rng)
    for _ in range(50):
        views.shuffle(together(1_000), rng)
    known_by = np.bincount(views.known[views.known != NOBODY], minlength=1_000)
    assert known_by.min() >= 5
    assert known_by.max() <= 60


def test_few_entries_are_about_edges_that_are_gone() -> None:
    """With 1% of the edges replaced a minute, and six periods in a minute."""
    rng = np.random.default_rng(0)
    views = PartialViews.start(3_000, rng)
    for _ in range(100):
        views.replace(rng.choice(3_000, 5, replace=False).astype(np.int32), rng)
        views.shuffle(together(3_000), rng)
    assert 0 < views.dead() < 0.05


@pytest.mark.parametrize("drawers", [True, False])
def test_views_cross_a_healed_partition_again_only_if_edges_remember_who_did_not_answer(
    drawers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not drawers:
        monkeypatch.setattr(PartialViews, "_try_drawers", lambda *_: None)
    rng = np.random.default_rng(0)
    views, half = PartialViews.start(200, rng), (np.arange(200) % 2).astype(np.int32)
    for _ in range(400):
        views.shuffle(half, rng)
    assert views.crossing(half) == 0, "the halves have forgotten each other"
    assert (views.drawer != NOBODY).sum() > 200 * DRAWER // 2
    for _ in range(40):
        views.shuffle(together(200), rng)
    assert (views.crossing(half) > 0.4) == drawers


def test_candidates_have_the_hint_of_the_edge_that_draws_them() -> None:
    rng = np.random.default_rng(0)
    hints = Hints.give(plant(1_000, 20, rng), 10, 0.1, rng)
    rows = np.arange(1_000, dtype=np.int32)
    assert (hints.hint[hints.draw(rows, 7, rng)] == hints.hint[rows, None]).all()


def test_a_puller_is_an_edge_that_pulls_and_a_larger_share_is_drawn_more_often() -> None:
    rng = np.random.default_rng(0)
    neighbours = np.array([[1, NOBODY], [0, 2], [0, 1]])
    announced = np.array([[0.5, 0.9], [0.6, 0.2], [0.2, 0.0]])
    drawn = np.array([draw_pullers(neighbours, announced, rng) for _ in range(400)])
    assert set(drawn[:, 1]) == {0}, "nobody else has given it a share"
    assert set(drawn[:, 2]) == {1}
    assert 0.65 < (drawn[:, 0] == 1).mean() < 0.85, "of the shares 0.6 and 0.2"


def test_edges_that_consider_their_pullers_find_their_cluster_sooner_and_no_edge_is_overrun() -> None:
    usual = Scenario(edges=1_000, size=100, rounds=60, until=1.1)
    greedy, design = run(usual), run(dataclasses.replace(usual, variant=DESIGN))
    assert design.rounds_until(0.8) is not None
    assert greedy.rounds_until(0.8) is None or design.rounds_until(0.8) < greedy.rounds_until(0.8)
    assert 2 * max(design.busiest[40:]) < max(greedy.busiest[40:])


def test_a_partial_view_is_as_good_as_a_full_directory() -> None:
    usual = Scenario(edges=1_000, size=100, rounds=30, variant=DESIGN, until=1.1)
    full, partial = run(usual), run(dataclasses.replace(usual, known="views"))
    assert partial.late() == pytest.approx(full.late(), abs=0.05)


def test_a_digest_has_as_many_bytes_per_edge_as_measured(measured: costs.Costs) -> None:
    heartbeat = Heartbeat(1, 1_000, 1_763_400_000_000, bytes(71))
    digest = Digest({f"edge-{number:06}": (1, 1, heartbeat) for number in range(500)})
    assert len(msgspec.msgpack.encode(digest)) / 500 == pytest.approx(measured.digest_entry, rel=0.05)
    assert measured.first_announcement < measured.announcement


def test_a_full_directory_grows_with_the_fleet_and_reaches_its_limits_where_it_says(measured: costs.Costs) -> None:
    found = budget.limits(measured, heard=0.9)
    for name, sent in (("1 Mbit/s sent", budget.MBIT), ("10 Mbit/s sent", 10 * budget.MBIT)):
        edges = int(found[name])
        assert budget.full_directory(measured, edges, 0.9).sent <= sent
        assert budget.full_directory(measured, edges + 1, 0.9).sent > sent
    large, small = budget.full_directory(measured, 10_000, 0.9), budget.full_directory(measured, 1_000, 0.9)
    assert large.memory == pytest.approx(10 * small.memory)
    assert budget.partial_views(measured).sent < budget.full_directory(measured, 100, 0.9).sent


def test_the_page_has_the_figures_of_its_file() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "internet-scale.md").read_text(encoding="utf-8")
    figures = json.loads((docs / "internet-scale.json").read_text(encoding="utf-8"))
    runs = figures["selection"]
    for name in ("greedy", "design", "greedy, churn", "design, partial views, churn", "design, clusters of 20, hints"):
        one = runs[name]
        assert f"{round(one['late'] * 100)}% after {one['rounds']} | {one['most busy']:,} |" in page, name
    assert f"{runs['greedy, partition']['most busy']:,} edges pulled from one" in page
    for edges, one in figures["gossip"].items():
        first, last = one["at once"]["spread"], one["lockstep"]["spread"]
        times = " | ".join(f"{first[level]} to {last[level]}" for level in ("0.5", "0.99", "1.0"))
        assert f"| {int(edges):,} | {times} |" in page
    limits = [edges for name, edges in figures["limits"].items() if "10 s" not in name and name != "one core"]
    for edges in limits:
        assert f"\n| {edges:,.0f} | " in page
