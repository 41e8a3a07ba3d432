"""The median that a newcomer starts from."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.start import median

NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_it_is_the_median(numbers: list[float]) -> None:
    values = torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)
    expected = torch.quantile(values, 0.5, dim=0)
    assert torch.allclose(median(values), expected)


@given(st.lists(NUMBERS, min_size=2, max_size=2), st.sampled_from([1e38, -1e38, 0.0]))
def test_one_hostile_value_of_three_stays_within_the_honest_ones(honest: list[float], hostile: float) -> None:
    values = torch.tensor([[honest[0]], [hostile], [honest[1]]])
    found = float(median(values))
    assert min(values[0], values[2]) <= found <= max(values[0], values[2])


def test_values_that_are_not_there_do_not_count() -> None:
    values = torch.tensor([[1.0, 7.0], [3.0, 8.0]])
    there = torch.tensor([[True, False], [True, False]])
    assert median(values, there).tolist() == [2.0, 0.0]
