"""The lower bound of epsilon: what it says of mechanisms whose epsilon is known."""

from math import exp, log

import pytest
import torch

from alphaedge.audit.bound import CONFIDENCE, guess, lower_bound, p_value
from alphaedge.errors import InvalidValue


def test_the_chance_of_right_guesses_is_that_of_a_binomial_variable() -> None:
    assert p_value(3, 3, 2, log(3), 0.0) == pytest.approx(3 * 0.75**2 * 0.25 + 0.75**3)
    assert p_value(100, 100, 75, log(3), 0.0) == pytest.approx(0.553, abs=0.001)  # as in the paper


def test_the_part_of_delta_is_the_steepest_mean_below() -> None:
    """By hand for v = 2 of r = 2 at epsilon 0: P[B = 1] = 1/2, and P[B in {0, 1}] / 2 = 3/8; the larger is 1/2."""
    assert p_value(10, 2, 2, 0.0, 0.001) == pytest.approx(0.25 + 2 * 10 * 0.001 * 0.5)


@pytest.mark.parametrize("r", [20, 200, 1000])
def test_r_canaries_show_about_the_logarithm_of_a_third_of_r(r: int) -> None:
    everything_right = lower_bound(r, r, r, 0.0)
    assert everything_right == pytest.approx(-log(0.05 ** (-1 / r) - 1))
    assert everything_right == pytest.approx(log(r / 3), abs=0.1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response_is_hardly_ever_said_to_tell_more_than_it_does(epsilon: float) -> None:
    generator, m, runs = torch.Generator().manual_seed(1), 400, 400
    honest = torch.rand(runs, m, generator=generator) < 1 / (1 + exp(-epsilon))
    bounds = [lower_bound(m, m, int(right.sum()), 0.0) for right in honest]
    too_much = sum(bound > epsilon for bound in bounds) / runs
    assert too_much <= 1 - CONFIDENCE + 0.03
    assert sum(bounds) / runs > 0.6 * epsilon - 0.1  # and the bound is not empty


def test_a_mechanism_that_tells_all_with_probability_delta_is_not_refuted_by_that() -> None:
    for delta in (0.01, 0.05):
        assert p_value(200, 200, 200, 0.0, delta) >= delta


def test_delta_makes_the_bound_smaller() -> None:
    assert lower_bound(200, 100, 90, 1e-4) < lower_bound(200, 100, 90, 0.0)
    assert lower_bound(200, 100, 90, 0.01) < lower_bound(200, 100, 90, 1e-4)


def test_no_more_guesses_can_be_right_than_there_are() -> None:
    with pytest.raises(InvalidValue, match="from 0 to 5"):
        lower_bound(10, 5, 6, 0.0)


def test_scores_that_tell_everything_are_found_out() -> None:
    coins = torch.rand(200, generator=torch.Generator().manual_seed(0)) < 0.5
    found = guess([coins.float()], coins, 1e-6)
    assert found.right == found.guesses
    assert 2.5 < found.epsilon <= found.most < log(200 / 3)


def test_equal_scores_tell_nothing_however_the_coins_lie() -> None:
    coins = torch.arange(200) < 100
    for order in (coins, ~coins):
        assert guess([torch.zeros(200)], order, 1e-6).epsilon == 0


def test_the_best_of_several_shares_exceeds_the_truth_no_more_often_than_promised() -> None:
    """Scores without a tie to the coins: every bound above 0 is wrong."""
    generator = torch.Generator().manual_seed(2)
    wrong = 0
    for _ in range(300):
        scores, coins = torch.randn(100, generator=generator), torch.rand(100, generator=generator) < 0.5
        wrong += guess([scores, -scores], coins, 0.0).epsilon > 0
    assert wrong <= 300 * 0.07
