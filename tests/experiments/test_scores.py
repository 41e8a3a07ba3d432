"""Scores over several runs: means, averages, differences, and what is clear of chance."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from alphaedge.experiments.scores import average, best_rival, difference, is_significant
from alphaedge.scoring import Score, score_of_runs


def score(*runs: float | None) -> Score:
    made = score_of_runs(runs)
    assert made is not None
    return made


def test_the_best_rival_is_one_of_the_papers() -> None:
    scores = {"noagg": score(0.6), "randps": score(0.7), "alphaedge": score(0.8), "pooled": score(0.9)}
    assert best_rival(scores) == "randps"
    assert best_rival({"alphaedge": score(0.8)}) is None


def test_a_rival_from_the_literature_is_one_where_it_took_part() -> None:
    scores = {"noagg": score(0.6), "fedfomo": score(0.75), "alphaedge": score(0.8)}
    assert best_rival(scores) == "fedfomo"


def test_the_paper_variant_is_compared_with_paper_variants_of_rivals() -> None:
    scores = {"noagg": score(0.6), "randps": score(0.9), "randps-paper": score(0.7), "alphaedge-paper": score(0.8)}
    assert best_rival(scores, "alphaedge-paper") == "randps-paper"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=8))
def test_significance_is_a_paired_t_test(runs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*runs, strict=True)
    gaps = [a - b for a, b in runs]
    assume(max(gaps) - min(gaps) > 1e-6)
    p = float(stats.ttest_rel(ours, theirs).pvalue)
    assume(abs(p - 0.05) > 1e-3)
    assert is_significant({"alphaedge": score(*ours), "fedweight": score(*theirs)}, "alphaedge") == (p < 0.05)


def test_an_average_is_taken_run_by_run() -> None:
    both = average([score(0.5, 0.7), score(0.6, 0.6)])
    assert both is not None
    assert both.runs == pytest.approx((0.55, 0.65))
    assert average([score(0.5), None]) is None
    assert average([]) is None


def test_an_average_has_no_score_where_a_run_has_none() -> None:
    both = average([score(0.5, None, 0.9), score(0.4, 0.2, 0.6)])
    assert both is not None
    assert both.runs == (pytest.approx(0.45), None, pytest.approx(0.75))


def test_a_difference_is_paired_over_the_seeds_that_have_both() -> None:
    gap = difference(score(0.5, 0.7), score(0.6, 0.6))
    assert gap is not None
    assert gap.runs == pytest.approx((-0.1, 0.1))
    gap = difference(score(0.5, None, 0.9), score(0.4, 0.2, 0.6))
    assert gap is not None
    assert gap.runs == pytest.approx((0.1, 0.3)), "the second run of one score is missing, so it has no pair"
