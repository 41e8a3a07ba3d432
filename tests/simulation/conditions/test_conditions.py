"""What the world does is drawn from the seed alone, in the shares that were asked for."""

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import Conditions, InvalidValue


@pytest.mark.parametrize(
    ("share", "edges", "hostile"),
    [(0.25, 10, 3), (0.25, 35, 9), (0.25, 4, 1), (0.25, 5, 1), (0.25, 6, 2), (0.0, 9, 0), (1.0, 9, 9), (0.04, 10, 0)],
)
def test_the_share_of_adversaries_is_rounded_to_the_nearest_number(share: float, edges: int, hostile: int) -> None:
    assert len(Conditions(adversaries=share).draw_adversaries(edges, seed=0)) == hostile


@given(st.floats(0, 1), st.integers(1, 60), st.integers(0, 5))
def test_adversaries_are_distinct_edges(share: float, edges: int, seed: int) -> None:
    drawn = Conditions(adversaries=share).draw_adversaries(edges, seed)
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(range(edges))
    assert abs(len(drawn) - share * edges) <= 0.5 + 1e-9


def test_adversaries_depend_on_the_seed_alone() -> None:
    conditions, others = Conditions(adversaries=0.25), Conditions(adversaries=0.25, delay=3, drop=0.5)
    by_seed = [conditions.draw_adversaries(20, seed) for seed in range(6)]
    assert by_seed == [others.draw_adversaries(20, seed) for seed in range(6)]
    assert len({tuple(drawn) for drawn in by_seed}) > 3


def test_every_edge_is_an_adversary_sometimes() -> None:
    drawn = [Conditions(adversaries=0.25).draw_adversaries(8, seed) for seed in range(200)]
    counts = np.bincount(np.concatenate(drawn), minlength=8)
    assert counts.min() > 25
    assert counts.max() < 75


def test_noise_flips_the_share_asked_for_and_differs_between_edges_and_seeds() -> None:
    conditions = Conditions(label_noise=0.3)
    drawn = conditions.draw_noise(0, 10_000, 0.3, seed=0)
    assert drawn.mean() == pytest.approx(0.3, abs=0.02)
    assert np.array_equal(drawn, conditions.draw_noise(0, 10_000, 0.3, seed=0))
    assert not np.array_equal(drawn, conditions.draw_noise(1, 10_000, 0.3, seed=0))
    assert not np.array_equal(drawn, conditions.draw_noise(0, 10_000, 0.3, seed=1))


def lengths(down: np.ndarray) -> list[int]:
    """Lengths of the outages, without the last, which may be cut short."""
    return [len(list(run)) for state, run in groupby(down.tolist()) if state][:-1]


@pytest.mark.parametrize(
    ("share", "stretch", "length"),
    [
        (0.25, 1.0, 1 / 0.75),  # each period on its own: outages end with chance 1 - share
        (0.5, 1.0, 2.0),
        (0.25, 4.0, 4.0),
        (0.1, 10.0, 10.0),
        (0.25, 1.2, 1.2),
        (0.75, 1.5, 3.0),  # so large a share of so short outages would need gaps of less than a period
    ],
)
def test_outages_have_the_share_and_the_length_asked_for(share: float, stretch: float, length: float) -> None:
    down = Conditions(drop=share, drop_stretch=stretch).draw_outages(0, 60_000, seed=0)
    assert down.mean() == pytest.approx(share, abs=0.02)
    assert np.mean(lengths(down)) == pytest.approx(length, rel=0.06)


def test_outages_start_in_the_share_asked_for() -> None:
    starts = [Conditions(drop=0.25, drop_stretch=8.0).draw_outages(e, 1, seed=0)[0] for e in range(4000)]
    assert np.mean(starts) == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(("share", "always"), [(0.0, False), (1.0, True)])
def test_nobody_and_everybody_can_be_down(share: float, always: bool) -> None:
    for stretch in (1.0, 5.0):
        down = Conditions(drop=share, drop_stretch=stretch).draw_outages(3, 50, seed=1)
        assert down.tolist() == [always] * 50


def test_outages_differ_between_edges_and_seeds_and_repeat() -> None:
    conditions = Conditions(drop=0.5)
    one = conditions.draw_outages(0, 100, seed=0)
    assert np.array_equal(one, conditions.draw_outages(0, 100, seed=0))
    assert not np.array_equal(one, conditions.draw_outages(1, 100, seed=0))
    assert not np.array_equal(one, conditions.draw_outages(0, 100, seed=1))


def test_a_longer_run_has_the_same_outages_to_begin_with() -> None:
    conditions = Conditions(drop=0.4, drop_stretch=3.0)
    assert np.array_equal(conditions.draw_outages(0, 30, seed=0), conditions.draw_outages(0, 90, seed=0)[:30])


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("delay", -1), ("delay", 1.5), ("delay", "soon"), ("staleness", -1), ("drop", 1.1), ("drop", -0.1),
        ("drop", float("nan")), ("drop_stretch", 0.5), ("adversaries", 2.0), ("label_noise", -1.0),
    ],
)  # fmt: skip
def test_conditions_that_cannot_be_are_refused(field: str, bad: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        Conditions(**{field: bad})
    assert (caught.value.field, caught.value.found) == (field, pytest.approx(bad, nan_ok=True))
    assert "number" in caught.value.allowed


@pytest.mark.parametrize("name", ["joins", "leaves"])
def test_a_moment_outside_the_run_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Conditions(**{name: {3: 1.5}})  # type: ignore[arg-type]
    assert caught.value.field == f"{name}[3]"


def test_an_edge_that_leaves_before_it_joins_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        Conditions(joins={2: 0.5}, leaves={2: 0.5})
    assert caught.value.field == "leaves[2]"


@pytest.mark.parametrize(
    ("field", "conditions"),
    [
        ("joins", Conditions(joins={4: 0.5})),
        ("leaves", Conditions(leaves={-1: 0.5})),
        ("noisy_edges", Conditions(label_noise=0.1, noisy_edges=(0, 9))),
    ],
)
def test_an_edge_that_does_not_exist_is_refused(field: str, conditions: Conditions) -> None:
    with pytest.raises(InvalidValue) as caught:
        conditions.check_edges(4)
    assert caught.value.field == field
    assert caught.value.allowed == "an edge from 0 to 3"


def test_noisy_edges_do_not_matter_without_noise() -> None:
    Conditions(noisy_edges=(99,)).check_edges(4)
