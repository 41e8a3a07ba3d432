"""What a table says of its cells: means, intervals, the best, and what is clear of chance."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from alphaedge.experiments.cell import CellResult
from alphaedge.experiments.compare import (
    Footnotes,
    Row,
    Score,
    average,
    best_rival,
    difference,
    of_runs,
    significant,
    written,
)


def score(*runs: float | None) -> Score:
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
    found, notes = Row({"noagg": score(0.60, 0.62), "alphaedge": score(0.70, 0.80)}), Footnotes()
    assert written(found, "alphaedge", notes, 0.719) == "**0.7500 ± 0.6353** (0.719)"
    assert written(found, "noagg", notes) == "0.6100 ± 0.1271"
    assert written(found, "randps", notes) == "\N{EN DASH}"
    assert not notes.numbers


def test_a_cell_that_makes_no_sense_says_why_below_the_table() -> None:
    row, notes = Row(), Footnotes()
    row.add("noagg", CellResult(per_seed=[0.6], per_edge=[], curves=[]))
    row.add("randps", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too old"]))
    row.add("nops", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too long"]))
    row.add("alphaedge", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too old"]))
    row.add("fedweight", None)
    methods = ("noagg", "randps", "nops", "alphaedge", "fedweight")
    dash = "\N{EN DASH}"
    assert [written(row, m, notes) for m in methods] == [
        "**0.6000**", f"{dash} [1]", f"{dash} [2]", f"{dash} [1]", dash
    ]  # fmt: skip
    assert notes.text() == "[1] too old; [2] too long."


def test_a_clear_difference_has_a_star_and_one_run_has_neither_star_nor_interval() -> None:
    clear = Row({"noagg": score(0.60, 0.61, 0.62), "alphaedge": score(0.70, 0.71, 0.721)})
    assert written(clear, "alphaedge", Footnotes()).endswith("** ★")
    one = Row({"noagg": score(0.6), "alphaedge": score(0.7)})
    assert written(one, "alphaedge", Footnotes()) == "**0.7000**"


def test_an_average_is_taken_run_by_run() -> None:
    found = average([score(0.5, 0.7), score(0.6, 0.6)])
    assert found is not None
    assert found.runs == pytest.approx((0.55, 0.65))
    assert average([score(0.5), None]) is None
    assert average([]) is None


def test_a_difference_is_of_the_seeds_that_both_have() -> None:
    gap = difference(score(0.5, 0.7), score(0.6, 0.6))
    assert gap is not None
    assert gap.runs == pytest.approx((-0.1, 0.1))
    one, two = of_runs([0.5, None, 0.9]), of_runs([0.4, 0.2, 0.6])
    assert one is not None
    assert two is not None
    gap = difference(one, two)
    assert gap is not None
    assert gap.runs == pytest.approx((0.1, 0.3)), "the second run of one has no score: it pairs with nothing"
    assert average([one, two]) is not None
    assert average([one, two]).runs == (pytest.approx(0.45), None, pytest.approx(0.75))  # type: ignore[union-attr]
