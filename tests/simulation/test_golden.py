"""The six methods score what they scored; regenerate with ``python -m tests.simulation.golden``."""

from itertools import combinations

import pytest

from .golden import METHODS, expected, found

TOLERANCE = 0.002


def test_the_six_methods_score_what_they_scored() -> None:
    then, now = expected(), found()
    assert set(then) == set(METHODS)
    for name in METHODS:
        assert now[name] == pytest.approx(then[name], abs=TOLERANCE), name


def test_the_golden_scores_tell_the_methods_apart() -> None:
    """Or else the test above would not notice one method in the place of another."""
    for one, two in combinations(expected().values(), 2):
        assert max(abs(one[key] - two[key]) for key in one) > 2 * TOLERANCE
