"""A table of scores: means, intervals, the best, stars, and footnotes for empty entries."""

from alphaedge.experiments.cell import CellResult
from alphaedge.experiments.score_table import Footnotes, MethodScores, format_entry, verdict
from alphaedge.scoring import Score, score_of_runs


def score(*runs: float | None) -> Score:
    made = score_of_runs(runs)
    assert made is not None
    return made


def test_the_best_method_is_bold_and_the_papers_number_is_in_brackets() -> None:
    column, notes = MethodScores({"noagg": score(0.60, 0.62), "alphaedge": score(0.70, 0.80)}), Footnotes()
    assert format_entry(column, "alphaedge", notes, 0.719) == "**0.7500 ± 0.6353** (0.719)"
    assert format_entry(column, "noagg", notes) == "0.6100 ± 0.1271"
    assert format_entry(column, "randps", notes) == "\N{EN DASH}"
    assert not notes.numbers


def test_a_skipped_cell_gives_its_reason_below_the_table() -> None:
    column, notes = MethodScores(), Footnotes()
    column.add("noagg", CellResult(per_seed=[0.6], per_edge=[], curves=[]))
    column.add("randps", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too old"]))
    column.add("nops", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too long"]))
    column.add("alphaedge", CellResult(per_seed=[], per_edge=[], curves=[], notes=["too old"]))
    column.add("fedweight", None)
    methods = ("noagg", "randps", "nops", "alphaedge", "fedweight")
    dash = "\N{EN DASH}"
    assert [format_entry(column, m, notes) for m in methods] == [
        "**0.6000**", f"{dash} [1]", f"{dash} [2]", f"{dash} [1]", dash
    ]  # fmt: skip
    assert notes.text() == "[1] too old; [2] too long."


def test_a_clear_difference_has_a_star_and_a_single_run_has_neither_star_nor_interval() -> None:
    clear = MethodScores({"noagg": score(0.60, 0.61, 0.62), "alphaedge": score(0.70, 0.71, 0.721)})
    assert format_entry(clear, "alphaedge", Footnotes()).endswith("** ★")
    one = MethodScores({"noagg": score(0.6), "alphaedge": score(0.7)})
    assert format_entry(one, "alphaedge", Footnotes()) == "**0.7000**"


def test_a_verdict_names_the_data_sets_where_a_claim_fails() -> None:
    ahead = MethodScores({"noagg": score(0.6), "alphaedge": score(0.7)})
    behind = MethodScores({"fedweight": score(0.8), "alphaedge": score(0.7)})
    assert verdict({"movielens": ahead}, 0.0).startswith("For AlphaEdge this **holds**.")
    text = verdict({"movielens": ahead, "tafeng": behind, "airquality": MethodScores()}, 0.0)
    assert "For AlphaEdge this **does not hold** on Ta-Feng (-0.1000 to FedWeight) (no cells: AirQuality)." in text
    assert "There are no cells to judge AlphaEdge (paper) by." in text
