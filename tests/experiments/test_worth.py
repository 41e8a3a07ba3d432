"""What learning from each other is worth: by size, by age, for new ids."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from alphaedge import Dataset, Field, Stream
from alphaedge.cli import app
from alphaedge.experiments.worth import Worth
from alphaedge.simulation.run_result import names_new_id


def worth(gains: list[float | None], events: list[int], ages: list[float | None]) -> Worth:
    return Worth({}, gains, events, ages, None, 0.0)


def test_small_and_large_regions_are_told_apart_by_their_events() -> None:
    found = worth([0.01, 0.05, None, 0.03], [400, 100, 200, 300], [])
    assert found.halves == (pytest.approx(0.05), pytest.approx(0.02))


def test_of_an_odd_number_the_middle_region_is_a_small_one() -> None:
    assert worth([0.1, 0.2, 0.6], [1, 2, 3], []).halves == (pytest.approx(0.15), pytest.approx(0.6))


@pytest.mark.parametrize(
    ("ages", "since"),
    [
        ([0.1, 0.1], 0.5),
        ([-0.1, 0.2], 1.0),
        ([0.1, -0.2], None),  # it did pay, but no longer
        ([0.1, -0.2, 0.2, None], 0.75),
        ([None, None], None),
    ],
)
def test_it_pays_from_when_the_gain_so_far_stays_positive(ages: list[float | None], since: float | None) -> None:
    assert worth([], [], ages).pays_from == since


def test_an_id_is_new_in_the_first_batch_of_the_edge_that_names_it() -> None:
    users, items = torch.tensor([1, 2, 1, 2, 1, 3]), torch.tensor([7, 7, 7, 8, 8, 8])
    fields = (Field("user", "id", 9), Field("item", "id", 9), Field("age", "number", 1))
    stream = Stream(
        {"user": users, "item": items, "age": torch.rand(6, 1)}, torch.zeros(6), torch.arange(6, dtype=torch.float64)
    )
    data = Dataset("visits", "classify", fields, (stream,))
    assert names_new_id(data, 0, 0, 3, 2).tolist() == [[True, True], [False, True], [False, True]]
    late = [[False, False], [True, True], [False, True]]
    assert names_new_id(data, 0, 1, 3, 2).tolist() == late, "an edge that joins late has met nothing before"


def test_without_ids_nothing_is_new() -> None:
    stream = Stream({"x": torch.rand(4, 1)}, torch.zeros(4), torch.arange(4, dtype=torch.float64))
    data = Dataset("numbers", "regress", (Field("x", "number", 1),), (stream,))
    assert not names_new_id(data, 0, 0, 2, 2).any()


def test_the_command_writes_a_table_and_two_pictures(films: Path) -> None:
    out = films / "out"
    words = ["reproduce", "worth", "--data", "movielens", "--runs", "2", "--rows", "all", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--jobs", "1"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    written = (out / "results.md").read_text()
    assert written.startswith("# What learning from each other is worth")
    (row,) = (line for line in written.splitlines() if line.startswith("| MovieLens-1M |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    alone, ours, gain = (float(cell.split()[0]) for cell in cells[1:4])
    assert gain == pytest.approx(ours - alone, abs=2e-4)
    assert cells[4].endswith("of 10")
    for name in ("gain-by-region", "gain-by-size", "gain-by-age"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_data_that_no_asked_experiment_has_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "table1", "--data", "expedia", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "expedia" in result.output
