"""What a table says of its cells: means, intervals, the best, and what is clear of chance."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from alphaedge.experiments.compare import Score, average, best_rival, difference, of_runs, significant, written


def score(*runs: float) -> Score:
    found = of_runs(runs)
    assert found is not None
    return found


def test_the_best_rival_is_one_of_the_papers() -> None:
    found = {"noagg": score(0.6), "randps": score(0.7), "alphaedge": score(0.8), "pooled": score(0.9)}
    assert best_rival(found) == "randps"
    assert best_rival({"alphaedge": score(0.8)}) is None


def test_the_literal_reading_is_compared_with_literal_rivals() -> None:
    found = {"noagg": score(0.6), "randps": score(0.9), "randps-paper": score(0.7), "alphaedge-paper": score(0.8)}
    assert best_rival(found, "alphaedge-paper") == "randps-paper"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=8))
def test_a_star_is_a_paired_t_test(runs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*runs, strict=True)
    gaps = [a - b for a, b in runs]
    assume(max(gaps) - min(gaps) > 1e-6)
    p = float(stats.ttest_rel(ours, theirs).pvalue)
    assume(abs(p - 0.05) > 1e-3)
    assert significant({"alphaedge": score(*ours), "fedweight": score(*theirs)}, "alphaedge") == (p < 0.05)


def test_the_best_method_is_bold_and_the_papers_number_is_in_brackets() -> None:
    found = {"noagg": score(0.60, 0.62), "alphaedge": score(0.70, 0.80)}
    assert written(found, "alphaedge", 0.719) == "**0.7500 ± 0.6353** (0.719)"
    assert written(found, "noagg") == "0.6100 ± 0.1271"
    assert written(found, "randps") == "\N{EN DASH}"


def test_a_clear_difference_has_a_star_and_one_run_has_neither_star_nor_interval() -> None:
    clear = {"noagg": score(0.60, 0.61, 0.62), "alphaedge": score(0.70, 0.71, 0.721)}
    assert written(clear, "alphaedge").endswith("** ★")
    assert written({"noagg": score(0.6), "alphaedge": score(0.7)}, "alphaedge") == "**0.7000**"


def test_an_average_is_taken_run_by_run() -> None:
    found = average([score(0.5, 0.7), score(0.6, 0.6)])
    assert found is not None
    assert found.runs == pytest.approx((0.55, 0.65))
    assert average([score(0.5), None]) is None
    assert average([]) is None


def test_a_difference_needs_the_same_runs() -> None:
    gap = difference(score(0.5, 0.7), score(0.6, 0.6))
    assert gap is not None
    assert gap.runs == pytest.approx((-0.1, 0.1))
    assert difference(score(0.5, 0.7), score(0.6)) is None
