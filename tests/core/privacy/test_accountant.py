"""The accountant says what Opacus says, and its noise keeps the promise."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.accountants import PRVAccountant, RDPAccountant
from opacus.accountants.analysis import gdp

from alphaedge.core.privacy.accountant import (
    NOISE_DELTA,
    epsilon_after,
    epsilon_of,
    mu_of,
    noise_multiplier,
    row_threshold,
)
from alphaedge.core.privacy.settings import Privacy


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 1.5, 4.0])
def test_epsilon_is_that_of_opacus_for_the_same_gaussian_mechanism(mu: float) -> None:
    assert epsilon_of(mu, 1e-6) == pytest.approx(gdp.eps_from_mu(mu=mu, delta=1e-6))


@pytest.mark.parametrize(("sigma", "steps"), [(2.0, 1), (2.0, 4), (5.0, 30), (1.0, 3)])
def test_steps_in_a_row_cost_what_opacus_composes_them_to(sigma: float, steps: int) -> None:
    ours = epsilon_of(math.sqrt(steps) / sigma, 1e-6)
    rdp, prv = RDPAccountant(), PRVAccountant()
    for _ in range(steps):
        rdp.step(noise_multiplier=sigma, sample_rate=1.0)
        prv.step(noise_multiplier=sigma, sample_rate=1.0)
    assert ours == pytest.approx(prv.get_epsilon(delta=1e-6), abs=0.02)
    assert ours <= rdp.get_epsilon(delta=1e-6)  # a looser bound


@settings(max_examples=20, deadline=None)
@given(epsilon=st.floats(0.05, 50), power=st.integers(-10, -3))
def test_the_noise_keeps_the_promise_and_wastes_next_to_nothing(epsilon: float, power: int) -> None:
    delta = 10.0**power
    mu = mu_of(epsilon, delta)
    assert epsilon_of(mu, delta) <= epsilon
    assert epsilon_of(1.001 * mu, delta) > epsilon


def test_a_user_who_counts_four_times_needs_twice_the_noise() -> None:
    once, often = Privacy(user="user"), Privacy(user="user", participations=4)
    assert noise_multiplier(often) == pytest.approx(2 * noise_multiplier(once))


def test_one_window_costs_the_promise_and_more_windows_cost_more() -> None:
    privacy = Privacy(epsilon=2.0)
    spent = [epsilon_after(privacy, windows) for windows in (0, 1, 2, 30)]
    assert spent[0] == 0
    assert spent[1] == pytest.approx(2.0, abs=1e-6)
    assert spent == sorted(spent)
    assert spent[3] < 30 * 2.0  # Gaussian composition is better than adding up


def test_a_row_with_one_user_behind_it_passes_the_threshold_with_less_than_delta_ever() -> None:
    noise, most, rows, delta = 3.0, 2.0, 10, 1e-6
    chances = []
    for times in range(1, 2000):
        gap = row_threshold(times, noise=noise, most=most, rows=rows, delta=delta) - most
        chances.append(0.5 * math.erfc(gap / (noise * math.sqrt(times)) / math.sqrt(2)))
    assert rows * sum(chances) < delta


def test_the_rest_of_delta_is_for_thresholds() -> None:
    assert 0 < NOISE_DELTA < 1
