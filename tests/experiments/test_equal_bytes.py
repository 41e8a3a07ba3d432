"""Scores beside bytes, and who is compared at equal bytes."""

from alphaedge.experiments.cell import Cell, CellResult
from alphaedge.experiments.equal_bytes import bytes_per_edge, equal_bytes
from alphaedge.experiments.plan import Plan
from alphaedge.report.page import markdown


def _result(score: float, changed: int) -> CellResult:
    return CellResult(per_seed=[score, score], per_edge=[[score] * 3] * 2, curves=[], bytes=(900, 800, changed))


def test_bytes_are_those_of_changed_rows_per_edge_and_run() -> None:
    assert bytes_per_edge(_result(0.7, 600)) == 100
    assert bytes_per_edge(None) is None


def test_alphaedge_is_compared_with_the_best_rival_that_pulls_no_more() -> None:
    found = {"alphaedge": (0.7, 600), "pens": (0.71, 640), "l2c": (0.75, 1200), "dpsgd": (0.69, 300)}
    plan = Plan(data=("movielens",), rivals=True)

    def get(cell: Cell) -> CellResult | None:
        return _result(*found[cell.method]) if cell.method in found else None

    text = markdown(equal_bytes(plan, get, plan.table_methods))
    assert "at most 1.1 times as much as AlphaEdge: MovieLens-1M -0.0100" in text
    assert "(PENS)" in text
    assert "| L2C | 0.7500 / 200 bytes |" in text


def test_without_cells_nothing_is_compared() -> None:
    plan = Plan(data=("movielens",), rivals=True)
    assert "Against" not in markdown(equal_bytes(plan, lambda cell: None, plan.table_methods))
