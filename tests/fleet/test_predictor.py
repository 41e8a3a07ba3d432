"""What an edge has learned predicts from Python as the live edge does, asked with raw values."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import alphaedge
from alphaedge.edge.config import load as load_config
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.errors import InvalidValue

from .shops import shop_frame

QUESTIONS = shop_frame(60, seed=1)[["item", "kind", "price", "sold"]]


def test_the_predictions_are_those_of_the_live_edge(results: Path, fleet: Path) -> None:
    folder = fleet / "koln-sud"
    config = load_config(folder / "edge.toml")
    learner = LearningLoop(config, folder).learner
    features = Features(config.model.fields, (folder / "fleet.secret").read_bytes())
    raw = {name: np.array(QUESTIONS[name].to_list(), dtype=object) for name in ("item", "kind")}
    examples = features.encode(raw | {"price": QUESTIONS["price"].to_numpy()})
    expected = torch.sigmoid(learner.predict(features.to_tensors(examples, learner.model.fields))).numpy()
    for found in (
        alphaedge.load(results, "Köln Süd"),
        alphaedge.load(fleet, "Köln Süd"),
        alphaedge.load(str(fleet), edge="koln-sud"),
        alphaedge.load(folder),
    ):
        np.testing.assert_allclose(found.predict(QUESTIONS), expected, atol=1e-6)
    other = alphaedge.load(results, "Bergen").predict(QUESTIONS)
    assert np.abs(other - expected).max() > 0.01


def test_frames_and_mappings_of_lists_and_arrays_are_the_same_question(results: Path) -> None:
    predictor = alphaedge.load(results, "Aarhus")
    expected = predictor.predict(QUESTIONS)
    columns = {name: QUESTIONS[name].to_list() for name in QUESTIONS.columns}
    arrays = {name: np.array(values) for name, values in columns.items()}
    objects = arrays | {"item": np.array(columns["item"], dtype=object)}
    for same in (QUESTIONS.lazy(), columns, arrays, objects):
        np.testing.assert_array_equal(predictor.predict(same), expected)
    assert predictor.predict(QUESTIONS[:0]).shape == (0,)


def test_numbers_may_be_missing_where_the_data_had_gaps(results: Path) -> None:
    predictor = alphaedge.load(results, "Aarhus")
    assert {f.name: f.missing for f in predictor.fields} == {"item": False, "kind": False, "price": True}
    found = predictor.predict({"item": ["item-1"] * 3, "kind": ["fruit"] * 3, "price": [None, float("nan"), 10.0]})
    assert found[0] == found[1]
    assert np.isfinite(found).all()


def test_values_that_the_edge_has_not_met_predict_alike(results: Path) -> None:
    predictor = alphaedge.load(results, "Aarhus")
    found = predictor.predict({"item": ["new", 7, None, "item-1"], "kind": ["tools"] * 4, "price": [10.0] * 4})
    assert found[0] == found[1] == found[2] != found[3]


def test_all_missing_columns_are_named_at_once(results: Path) -> None:
    predictor = alphaedge.load(results, "Aarhus")
    for given in ({"item": ["a"]}, pl.DataFrame({"item": ["a"]})):
        with pytest.raises(InvalidValue, match="also kind, price"):
            predictor.predict(given)


def test_text_is_no_number(results: Path) -> None:
    with pytest.raises(InvalidValue, match=r"inputs\.price.*numbers"):
        alphaedge.load(results, "Aarhus").predict({"item": ["a"], "kind": ["b"], "price": ["cheap"]})


def test_a_region_is_asked_for_where_there_are_several(results: Path, fleet: Path, tmp_path: Path) -> None:
    for folder in (results, fleet):
        with pytest.raises(InvalidValue, match="one of Aarhus, Bergen, Gdańsk, Köln Süd"):
            alphaedge.load(folder)
    with pytest.raises(InvalidValue, match="Paris"):
        alphaedge.load(results, "Paris")
    with pytest.raises(InvalidValue, match="results folder"):
        alphaedge.load(tmp_path)


def test_a_notebook_shows_the_fields(results: Path) -> None:
    page = alphaedge.load(results, "Köln Süd")._repr_html_()
    assert "Köln Süd" in page
    assert "60 values known" in page
    assert "may be missing" in page
