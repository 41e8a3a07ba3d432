"""A wrong argument of ``simulate`` is answered with the right one."""

from typing import Any

import polars as pl
import pytest
from torch import nn

from alphaedge import Conditions, InvalidValue, Model, Settings, Store, simulate
from alphaedge.settings import MethodSettings
from alphaedge.simulation.pace import suited_pace

from .fleets import linear, measured


def refused(*settings: Any, **arguments: Any) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        simulate(*settings, **arguments)
    return caught.value


@pytest.mark.parametrize(
    ("name", "value", "way"),
    [
        ("method", "alphaedge", "methods=['alphaedge']"),
        ("method", "alphaedge, noagg", "methods=['alphaedge', 'noagg']"),
        ("methods", "alphaedge,noagg", "methods=['alphaedge', 'noagg']"),
        ("seed", 3, "seeds="),
        ("dataset", None, "data="),
        ("df", None, "data=alphaedge.Dataset.from_frame(df, "),
        ("table", "shops.csv", "data=alphaedge.Dataset.from_frame(polars.read_csv('shops.csv'), "),
        ("table", "shops.parquet", "polars.read_parquet('shops.parquet')"),
        ("data", "shops.csv", "data=alphaedge.Dataset.from_frame(polars.read_csv('shops.csv'), "),
        ("data", "movielens", "alphaedge.Settings(data='movielens')"),
        ("data", pl.DataFrame({"day": [1]}), "Dataset.from_frame(frame"),
        ("lr", 0.1, "rate="),
        ("batchsize", 10, "batch_size="),
        ("Seeds", 3, "seeds="),
        ("job", 3, "jobs="),
        ("peers", 3, "method=alphaedge.MethodSettings(peers=...)"),
        ("edges", 3, "store=alphaedge.Store(edges=...)"),
        ("adversaries", 0.1, "conditions=alphaedge.Conditions(adversaries=...)"),
        ("label", "sold", "Dataset.from_frame(frame"),
        ("store", Conditions(), "an alphaedge.Store"),
        ("out", "results", "simulate(...).save(folder)"),
        ("model", nn.Linear(2, 1), "a function that makes a Model"),
        ("model", Model(nn.Linear(2, 1), fields=["x"]), "a function that makes a Model"),
        ("model", "mlp", "a function that makes a Model"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_one(name: str, value: object, way: str) -> None:
    error = refused(**{name: value})
    assert way in error.allowed
    assert name in (error.field, error.found)


def test_a_name_that_is_like_no_other_gets_the_list_of_all() -> None:
    assert {"data", "methods", "batch_size", "jobs"} <= set(
        refused(zebra=1).allowed.removeprefix("one of ").split(", ")
    )


@pytest.mark.parametrize("first", [measured(), pl.DataFrame({"day": [1]})])
def test_data_in_the_place_of_settings_are_told_their_name(first: Any) -> None:
    error = refused(first)
    assert error.field == "settings"
    assert "data=" in error.allowed


def test_a_function_that_makes_a_bare_module_is_told_what_to_make() -> None:
    error = refused(data=measured(), model=lambda: nn.Linear(2, 1), methods=["noagg"], batch_size=5)
    assert (error.field, error.found) == ("model", "Linear")
    assert "alphaedge.Model" in error.allowed


def test_data_from_python_learn_as_a_table_does_unless_told_otherwise() -> None:
    quick: dict[str, Any] = {"methods": ["noagg"], "batch_size": 5, "executor": "one-at-a-time"}
    found = simulate(data=measured(2, 4), **quick).settings
    assert (found.rate, found.id_rows) == (0.001, "adagrad")
    found = simulate(data=measured(2, 4, task="classify"), **quick).settings
    assert (found.rate, found.id_rows) == (0.01, "adagrad")
    assert simulate(data=measured(2, 4), rate=0.1, **quick).settings.rate == 0.1
    assert simulate(data=measured(2, 4), model=linear, **quick).settings.rate is None


def test_data_from_python_get_the_pace_of_a_table_and_are_told_it() -> None:
    data = measured(2, 60)
    found = simulate(data=data, methods=["noagg"])
    pace = suited_pace(len(data.streams[0]), data.task)
    assert (found.settings.batch_size, found.settings.method.aggregate_every) == pace
    said = f"batches of {pace.batch_size} (batch_size), an aggregation every {pace.aggregate_every} batches"
    assert any(said in message for message in found.summary()["messages"])
    given = simulate(data=data, methods=["noagg"], batch_size=30, method=MethodSettings(aggregate_every=2))
    assert (given.settings.batch_size, given.settings.method.aggregate_every) == (30, 2)
    assert not any("chosen by" in message for message in given.summary()["messages"])


def test_right_arguments_are_taken() -> None:
    store = Store(edges=2, events=60)
    found = simulate(Settings(store=store), methods=("noagg",), batch_size=10, executor="one-at-a-time")
    assert found.methods == ["noagg"]
