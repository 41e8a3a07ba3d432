"""D-PSGD's weights."""

import pytest

from alphaedge.core.rules.aggregation.rivals.metropolis import Metropolis

from .line import line, mixed


def test_by_hand_on_a_ring_three_models_weigh_a_third_each() -> None:
    value, raw = mixed(Metropolis(), line(0.0, 3.0, 9.0))
    assert raw == pytest.approx([1 / 3] * 3)
    assert value == pytest.approx(4.0)


def test_the_share_of_an_absent_neighbour_stays_at_home() -> None:
    value, raw = mixed(Metropolis(), line(0.0, 3.0, 9.0, present=[True, False]))
    assert raw[:2] == pytest.approx([2 / 3, 1 / 3])
    assert value == pytest.approx(1.0)


def test_more_neighbours_than_the_degree_weigh_the_same_as_the_own_model() -> None:
    _, raw = mixed(Metropolis(degree=2), line(0.0, 1.0, 2.0, 3.0))
    assert raw == pytest.approx([0.25] * 4)
