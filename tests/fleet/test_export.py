"""A model that was exported predicts elsewhere what it predicts here."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import alphaedge
from alphaedge.cli import app
from alphaedge.data.table import Table
from alphaedge.errors import InvalidValue, ModelError
from alphaedge.fleet import onnx_export
from alphaedge.fleet.export import export
from alphaedge.fleet.onnx_export import run
from alphaedge.settings import MethodSettings
from alphaedge.simulation.config import Settings
from alphaedge.simulation.simulate import simulate

from .test_predictor import QUESTIONS


def ask(folder: Path, frame: pl.DataFrame) -> np.ndarray:
    """Predict with onnxruntime alone: text for ids and categories, numbers as they are."""
    columns = {name: np.array(frame[name].to_list(), dtype=object) for name in ("item", "kind")}
    return run((folder / "model.onnx").read_bytes(), columns | {"price": frame["price"].cast(pl.Float32).to_numpy()})


def test_an_export_predicts_what_its_source_predicts(results: Path, tmp_path: Path) -> None:
    export(results, tmp_path / "model", "Gdańsk")
    found = alphaedge.load(tmp_path / "model")
    assert found.edge == "Gdańsk"
    np.testing.assert_array_equal(found.predict(QUESTIONS), alphaedge.load(results, "Gdańsk").predict(QUESTIONS))


def test_the_description_has_the_values_of_each_row(results: Path, tmp_path: Path) -> None:
    export(results, tmp_path / "model", "Gdańsk")
    about = json.loads((tmp_path / "model" / "description.json").read_text(encoding="utf-8"))
    item, kind, price = about["inputs"]
    assert (item["name"], item["kind"], item["rows"]) == ("item", "id", len(item["values"]))
    assert sorted(kind["values"]) == ["drinks", "fruit", "paper", "tools"]
    assert price["missing"]
    assert "values" not in price or price["values"] is None
    assert (about["edge"], about["task"]) == ("Gdańsk", "classify")


def test_onnx_predicts_the_same_on_known_and_unknown_values_and_missing_numbers(results: Path, tmp_path: Path) -> None:
    export(results, tmp_path / "model", "Gdańsk", onnx=True)
    price = pl.when(pl.int_range(pl.len()) % 3 > 0).then("price").otherwise(float("nan"))
    item = pl.when(pl.int_range(pl.len()) % 5 > 0).then("item").otherwise(pl.lit("brand new"))
    questions = QUESTIONS.with_columns(price=price, item=item)
    expected = alphaedge.load(results, "Gdańsk").predict(questions)
    np.testing.assert_allclose(ask(tmp_path / "model", questions), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ask(tmp_path / "model", questions[:1]), expected[:1], rtol=0, atol=1e-5)


def test_onnx_takes_columns_of_any_name_and_predicts_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"day": range(900), "place": ["a", "b"] * 450, "share": rng.normal(size=900)})
    frame = frame.with_columns(level=100 + 20 * pl.col("share"))
    frame.write_csv(tmp_path / "levels.csv")
    settings = Settings(
        data="table",
        table=Table(
            file=str(tmp_path / "levels.csv"), time="day", edge="place", label="level", numbers=("share",), only=True
        ),
        methods=("alphaedge",),
        batch_size=10,
        method=MethodSettings(aggregate_every=6),
    )
    simulate(settings, keep_state="alphaedge").save(tmp_path / "results")
    export(tmp_path / "results", tmp_path / "model", "b", onnx=True)
    found = run((tmp_path / "model" / "model.onnx").read_bytes(), {"share": np.float32([-1.0, 0.0, 1.0])})
    expected = alphaedge.load(tmp_path / "results", "b").predict({"share": [-1.0, 0.0, 1.0]})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[0] < found[2]


def test_a_live_edge_is_exported_by_keys_and_asked_with_the_secret(fleet: Path, tmp_path: Path) -> None:
    export(fleet / "bergen", tmp_path / "model")
    assert "item-1" not in (tmp_path / "model" / "description.json").read_text(encoding="utf-8")
    with pytest.raises(InvalidValue, match="secret"):
        alphaedge.load(tmp_path / "model")
    found = alphaedge.load(tmp_path / "model", secret=fleet / "bergen" / "fleet.secret").predict(QUESTIONS)
    np.testing.assert_array_equal(found, alphaedge.load(fleet, "Bergen").predict(QUESTIONS))
    with pytest.raises(InvalidValue, match="live edge"):
        export(fleet / "bergen", tmp_path / "onnx", onnx=True)
    assert not list(tmp_path.glob("onnx*"))


def test_a_model_that_predicts_otherwise_in_onnx_is_not_written(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_export, "run", lambda data, columns: run(data, columns) + 1e-3)
    with pytest.raises(ModelError, match=r"differ by up to 0\.001"):
        export(results, tmp_path / "model", "Gdańsk", onnx=True)
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_wrote_and_refuses_to_overwrite(results: Path, tmp_path: Path) -> None:
    command = ["export", str(results), "--edge", "Köln Süd", "--out", str(tmp_path / "model"), "--onnx"]
    first, again = CliRunner().invoke(app, command), CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "model.onnx" in first.output
    assert "Köln Süd: classify" in first.output
    assert again.exit_code == 2
    assert "does not exist yet" in again.output
