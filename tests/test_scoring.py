"""Scores agree with scikit-learn, scipy and calculation by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from alphaedge.scoring import SCORES, auc, interval95, log_loss, mean, one_minus_smape

# Few distinct values, so that ties are common.
tied = st.integers(0, 5).map(lambda n: n / 5)
pairs = st.lists(st.tuples(st.one_of(tied, st.floats(0, 1, width=32)), st.booleans()), min_size=2, max_size=40)


@given(pairs)
def test_auc_equals_that_of_scikit_learn_with_ties(pairs: list[tuple[float, bool]]) -> None:
    predictions, labels = torch.tensor([[p for p, _ in pairs]]), torch.tensor([[float(y) for _, y in pairs]])
    score = auc(predictions, labels).item()
    if labels.min() == labels.max():
        assert math.isnan(score)
    else:
        assert score == pytest.approx(roc_auc_score(labels[0].numpy(), predictions[0].numpy()), abs=1e-12)


@given(pairs)
def test_auc_of_flipped_labels_is_one_minus_auc(pairs: list[tuple[float, bool]]) -> None:
    predictions, labels = torch.tensor([[p for p, _ in pairs]]), torch.tensor([[float(y) for _, y in pairs]])
    both = auc(predictions, labels) + auc(predictions, 1 - labels)
    assert torch.isnan(both).item() or both.item() == pytest.approx(1, abs=1e-12)


def test_auc_is_computed_per_row() -> None:
    predictions = torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.1, 0.2]])
    labels = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    assert auc(predictions, labels).tolist() == pytest.approx([1.0, 0.0, 0.5, math.nan], nan_ok=True)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_auc_of_a_single_class_is_nan(label: float) -> None:
    assert math.isnan(auc(torch.tensor([[0.1, 0.7, 0.3]]), torch.full((1, 3), label)).item())


@pytest.mark.parametrize("broken", [[math.nan] * 4, [math.nan, 0.1, 0.2, 0.3]])
def test_auc_of_nan_predictions_is_nan(broken: list[float]) -> None:
    assert math.isnan(auc(torch.tensor([broken]), torch.tensor([[0.0, 1.0, 0.0, 1.0]])).item())


def test_one_minus_smape_by_hand() -> None:
    predictions = torch.tensor([[1.0, 3.0, -1.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    labels = torch.tensor([[1.0, 1.0, 1.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    # |F - A| / (|F| + |A|) = 0, 2/4, 2/2, 5/5
    assert one_minus_smape(predictions, labels).tolist() == pytest.approx([1 - 2.5 / 4, 1.0])


def test_predicting_zero_for_zero_is_no_error() -> None:
    assert one_minus_smape(torch.zeros(1, 4), torch.zeros(1, 4)).item() == 1
    assert one_minus_smape(torch.tensor([[0.0, 1.0]]), torch.zeros(1, 2)).item() == pytest.approx(0.5)


@pytest.mark.parametrize("broken", [[math.nan] * 3, [math.nan, 1.0, 2.0], [math.inf, 1.0, 2.0]])
def test_one_minus_smape_of_nan_or_infinite_predictions_is_nan(broken: list[float]) -> None:
    assert math.isnan(one_minus_smape(torch.tensor([broken]), torch.tensor([[0.0, 1.0, 2.0]])).item())


@given(st.lists(st.tuples(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30)), min_size=1, max_size=20))
def test_one_minus_smape_is_between_zero_and_one(pairs: list[tuple[float, float]]) -> None:
    score = one_minus_smape(torch.tensor([[p for p, _ in pairs]]), torch.tensor([[y for _, y in pairs]])).item()
    assert -1e-6 <= score <= 1


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=40))
def test_log_loss_equals_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    p, y = torch.tensor([p for p, _ in pairs]).double(), torch.tensor([float(y) for _, y in pairs])
    expected = sklearn_log_loss(y.numpy(), p.numpy(), labels=[0, 1])
    assert log_loss(p, y) == pytest.approx(expected, rel=1e-9)


def test_log_loss_of_a_certain_mistake_is_finite() -> None:
    assert math.isfinite(log_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])))


@pytest.mark.parametrize("count", [2, 3, 5, 11, 31])
def test_the_interval_of_the_mean_is_students(count: int) -> None:
    values = torch.randn(count, generator=torch.Generator().manual_seed(count)).double().tolist()
    low, high = stats.t.interval(0.95, count - 1, loc=sum(values) / count, scale=stats.sem(values))
    assert interval95(values) == pytest.approx((high - low) / 2, rel=1e-4)


def test_the_interval_of_many_runs_is_never_too_narrow() -> None:
    values = [float(i % 7) for i in range(200)]
    low, high = stats.t.interval(0.95, 199, scale=stats.sem(values))
    half = interval95(values)
    assert half is not None
    assert (high - low) / 2 <= half <= 1.05 * (high - low) / 2


@pytest.mark.parametrize("values", [[], [0.7]])
def test_fewer_than_two_runs_have_no_interval(values: list[float]) -> None:
    assert interval95(values) is None


def test_equal_runs_have_an_interval_of_zero() -> None:
    assert interval95([0.5, 0.5, 0.5]) == 0


def test_the_mean_leaves_out_nan_and_none() -> None:
    assert mean([0.2, math.nan, None, 0.4]) == pytest.approx(0.3)
    assert mean([math.nan, None]) is None
    assert mean([]) is None


def test_scores_have_the_names_that_data_sets_use() -> None:
    assert {"AUC": auc, "1-SMAPE": one_minus_smape} == SCORES
