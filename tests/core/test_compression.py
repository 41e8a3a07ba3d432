"""What is published is near to what was trained, in fewer bytes; what rounding leaves out comes with the next time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.compression import (
    BLOCK,
    LARGEST,
    Codes,
    Precision,
    compress_dense,
    compress_rows,
    dense_bytes,
    dense_codes,
    expand,
    has_moved,
    quantise,
    residual_columns,
    row_bytes,
)

WIDTH, TALLY = 5, 2
SIZES = st.floats(-30, 30).map(lambda power: 10.0**power)
DTYPES = st.sampled_from([torch.float32, torch.float64])


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_what_is_published_in_bfloat16_has_three_digits_and_is_published_again_as_it_is(number: float) -> None:
    one = torch.tensor([number])
    rounded, residual = compress_dense(one, one[:0], "bfloat16")
    assert rounded.dtype == one.dtype
    assert abs(float(rounded - one)) <= abs(number) / 256
    assert torch.equal(compress_dense(rounded, residual, "bfloat16").published, rounded)
    assert torch.equal(rounded.bfloat16().to(one.dtype), rounded), "nothing is lost on the way"
    assert residual.numel() == 0


def test_full_precision_leaves_numbers_as_they_are() -> None:
    one = torch.rand(5)
    assert compress_dense(one, one[:0], "full").published is one
    rows = torch.rand(3, 7)
    assert compress_rows(rows, rows[:, :0], 5, "full").published is rows


@given(st.integers(0, 10_000), st.integers(0, 200), st.integers(1, 70), SIZES, DTYPES)
def test_an_int8_is_at_most_half_a_step_from_its_number(
    seed: int, size: int, block: int, scale: float, dtype: torch.dtype
) -> None:
    numbers = drawn(seed, 2, size, dtype=dtype) * scale
    made = quantise(numbers, block)
    found = expand(made, block, dtype)
    steps = made.scales.to(dtype).repeat_interleave(block, dim=1)[:, :size]
    assert bool(((found - numbers).abs() <= steps * 0.50001).all())
    assert made.codes.dtype == torch.int8
    assert made.scales.dtype == torch.bfloat16


@given(st.integers(0, 10_000), st.integers(1, 200), st.integers(1, 70), SIZES, DTYPES)
def test_what_is_published_in_int8_gives_the_same_codes_again(
    seed: int, size: int, block: int, scale: float, dtype: torch.dtype
) -> None:
    made = quantise(drawn(seed, size, dtype=dtype) * scale, block)
    again = quantise(expand(made, block, dtype), block)
    assert torch.equal(again.codes, made.codes)
    assert torch.equal(again.scales, made.scales)
    parts = [part.abs().max() for part in made.codes.split(block)]
    assert all(int(part) == LARGEST for part in parts), "no block wastes what its codes can say"


@pytest.mark.parametrize("numbers", [[0.0, 0.0], [1e-42, -1e-43], [0.0, 1e-38]])
def test_what_is_too_small_for_a_scale_is_published_as_nothing(numbers: list[float]) -> None:
    made = quantise(torch.tensor(numbers), 2)
    assert expand(made, 2, torch.float32).tolist() == [0.0, 0.0]


def test_a_row_that_is_not_finite_is_published_so_and_spoils_no_later_one() -> None:
    rows = torch.tensor([[torch.nan, 1.0], [torch.inf, 1.0], [2.0, 1.0]])
    published, residual = compress_rows(rows, rows[:, :0], 2, "int8")
    assert published.isfinite().all(1).tolist() == [False, False, True]
    assert residual.isfinite().all()


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_what_was_published_and_the_residual_add_up_to_the_true_numbers(seed: int, times: int, dense: bool) -> None:
    """Error feedback telescopes: rounding shifts a part of a number to the next publication, and loses nothing."""
    size = 3 * BLOCK // 2 if dense else WIDTH
    true, told = torch.zeros(4, size, dtype=torch.float64), torch.zeros(4, size, dtype=torch.float64)
    residual = true[:, :0]
    for step in range(times):
        numbers = drawn(seed + step, 4, size)
        if dense:
            published, residual = compress_dense(numbers, residual, "int8")
        else:
            published, residual = compress_rows(numbers, residual, WIDTH, "int8")
        true, told = true + numbers, told + published
        largest = published.abs().amax(1, keepdim=True) / LARGEST
        assert bool((residual.abs() <= 0.50001 * largest).all()), "it never grows"
    torch.testing.assert_close(told + residual, true, rtol=0, atol=1e-12)


def test_with_error_feedback_the_mean_of_what_is_published_of_a_still_row_is_the_row() -> None:
    row, residual, total = torch.tensor([[1.0, 0.0021, -0.3333]]), torch.empty(1, 0), torch.zeros(1, 3)
    for _ in range(100):
        published, residual = compress_rows(row, residual, 3, "int8")
        total += published
    torch.testing.assert_close(total / 100, row, rtol=0, atol=0.5 / LARGEST / 100)
    assert (published - row).abs().max() <= 1 / LARGEST


@given(st.integers(0, 10_000), st.sampled_from(["int8", "bfloat16", "full"]))
def test_how_a_row_is_published_depends_on_no_other_row(seed: int, precision: Precision) -> None:
    rows, residual = drawn(seed, 6, WIDTH + TALLY), 0.001 * drawn(seed + 1, 6, residual_columns(WIDTH, precision))
    whole = compress_rows(rows, residual, WIDTH, precision)
    for r in range(len(rows)):
        alone = compress_rows(rows[r : r + 1], residual[r : r + 1], WIDTH, precision)
        assert torch.equal(alone.published[0], whole.published[r])
        assert torch.equal(alone.residual[0], whole.residual[r])


def test_tallies_keep_three_digits_whatever_the_row_and_have_no_residual() -> None:
    rows = torch.tensor([[1e-3, -2e-3, 1234.0, -77.7]])
    published, residual = compress_rows(rows, rows[:, :0], 2, "int8")
    assert torch.equal(published[:, 2:], rows[:, 2:].bfloat16().float())
    assert residual.shape == (1, 2)


@pytest.mark.parametrize("precision", ["int8", "bfloat16", "full"])
def test_bytes_are_those_of_the_tensors_on_their_way(precision: Precision) -> None:
    dense, rows = torch.rand(100), torch.rand(1, WIDTH + TALLY)
    if precision == "int8":
        made, of_row = quantise(dense, BLOCK), quantise(rows[:, :WIDTH], WIDTH)
        sizes = [sum(x.nbytes for x in made), sum(x.nbytes for x in of_row) + rows[:, WIDTH:].bfloat16().nbytes]
    else:
        sizes = [(x.bfloat16() if precision == "bfloat16" else x).nbytes for x in (dense, rows)]
    assert [dense_bytes(100, 4, precision), row_bytes(WIDTH, WIDTH + TALLY, 4, precision)] == sizes


def test_a_number_of_a_double_is_eight_bytes_in_full_precision_alone() -> None:
    assert dense_bytes(10, 8, "full") == row_bytes(8, 10, 8, "full") == 80
    assert dense_bytes(10, 8, "bfloat16") == row_bytes(8, 10, 8, "bfloat16") == 20


def test_a_row_has_moved_if_its_parameters_or_its_events_differ_by_more_than_the_fraction() -> None:
    published = torch.tensor([[3.0, 4.0, 10.0, 1.0]] * 5)
    changes = torch.tensor([[0.0, 0, 0, 0], [0.4, 0, 0, 0], [0, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 2, 0]])
    assert has_moved(published + changes, published, 2, 0.1).tolist() == [False, False, True, False, True]
    assert has_moved(published + changes, published, 2, 0.0).all(), "without a threshold every row counts as moved"
    assert has_moved((published + changes)[:, :2], published[:, :2], 2, 0.1).tolist() == [
        False, False, True, False, False,
    ]  # fmt: skip


@given(st.integers(0, 10_000), st.floats(0.01, 1.0), st.sampled_from(["int8", "bfloat16", "full"]))
def test_what_peers_hold_is_never_further_from_a_row_than_the_fraction_and_rounding(
    seed: int, min_change: float, precision: Precision
) -> None:
    """Changes below the threshold are not lost: they add up until they are above it."""
    g = torch.Generator().manual_seed(seed)
    row = torch.randn(1, WIDTH, dtype=torch.float64, generator=g)
    published, residual = compress_rows(row, row[:, : residual_columns(WIDTH, precision)] * 0, WIDTH, precision)
    for _ in range(30):
        row = row + 0.02 * torch.randn(1, WIDTH, dtype=torch.float64, generator=g)
        if has_moved(row, published, WIDTH, min_change):
            published, residual = compress_rows(row, residual, WIDTH, precision)
            rounding = {"int8": WIDTH / LARGEST, "bfloat16": 2.0**-8, "full": 0.0}[precision]
            assert float((row - published).norm()) <= rounding * float(row.norm()) + 1e-12
        else:
            assert float((row - published).norm()) <= min_change * float(published.norm())


def test_codes_of_no_rows_are_no_rows() -> None:
    none = quantise(torch.empty(0, 3), 3)
    assert expand(Codes(*none), 3, torch.float32).shape == (0, 3)


def test_a_dense_part_with_one_huge_number_is_published_in_bfloat16() -> None:
    even = drawn(0, 200)
    uneven = even.clone()
    uneven[70] = 1000.0
    made = compress_dense(torch.stack([even, uneven]), torch.zeros(2, 200), "int8")
    assert dense_codes(made.published[0]) is not None
    assert dense_codes(made.published[1]) is None
    assert torch.equal(made.published[1], uneven.bfloat16().float())
    assert not made.residual[1].any()
    again = compress_dense(made.published[1], made.residual[1], "int8")
    assert torch.equal(again.published, made.published[1]), "what was published is published again as it is"


def test_zeros_and_a_few_tiny_numbers_are_no_reason_to_leave_int8() -> None:
    numbers = drawn(0, 64)
    numbers[:40], numbers[40:44] = 0.0, 1e-9
    assert dense_codes(compress_dense(numbers, numbers[:0], "int8").published) is not None
    assert dense_codes(compress_dense(torch.zeros(10), torch.zeros(0), "int8").published) is not None
