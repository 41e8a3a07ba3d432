"""The trimmed mean and the median, number by number."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from alphaedge.core.rules.aggregation.rivals.trimmed_mean import TrimmedMean, trimmed_mean

from .line import line, mixed

MEDIAN = TrimmedMean(trim=0.5)


def test_by_hand_the_largest_and_the_smallest_of_five_are_left_out() -> None:
    assert mixed(TrimmedMean(trim=0.25), line(0.0, 1.0, 2.5, 3.0, 100.0))[0] == pytest.approx(6.5 / 3)


def test_by_hand_the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() -> None:
    assert mixed(MEDIAN, line(0.0, 1.0, 2.5, 3.0, 100.0))[0] == 2.5
    assert mixed(MEDIAN, line(0.0, 1.0, 3.0, 100.0))[0] == 2.0


def test_an_absent_model_is_not_counted() -> None:
    assert mixed(MEDIAN, line(0.0, 1.0, 2.5, 3.0, present=[True, True, False]))[0] == 1.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4]))
def test_it_is_scipys_trimmed_mean_whatever_is_missing(numbers: list[float], trim: float) -> None:
    column = torch.tensor([*numbers, torch.nan, torch.inf], dtype=torch.float64).view(1, -1, 1)
    expected = stats.trim_mean(numbers, trim)
    assert float(trimmed_mean(column, trim)) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert float(trimmed_mean(column, 0.5)) == pytest.approx(float(np.median(numbers)), rel=1e-9, abs=1e-6)


def test_of_no_numbers_there_is_no_mean() -> None:
    assert torch.isnan(trimmed_mean(torch.full((1, 3, 1), torch.nan), 0.25)).all()
