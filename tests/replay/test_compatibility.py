"""Whether a model fits the data, which edge goes where, and the model section that is printed."""

import tomllib

import msgspec
import pytest
import torch

from alphaedge import Dataset, Field, InvalidValue, Store, Stream, synthetic
from alphaedge.edge.config import EdgeConfig, ModelConfig
from alphaedge.edge.serving.openapi import model_metadata
from alphaedge.errors import ModelMismatch
from alphaedge.inference.client import ModelInfo, ModelParameters
from alphaedge.replay.assignment import assign
from alphaedge.replay.compatibility import check_compatible, find_differences
from alphaedge.replay.model_section import model_section
from alphaedge.toml import build

FIELDS = (Field("user", "id", 10), Field("kind", "code", 3), Field("tags", "set", 4), Field("x", "number", 2))


def data(task: str = "classify", fields: tuple[Field, ...] = FIELDS, classes: tuple[str, str] | None = None) -> Dataset:
    count = 4
    inputs = {
        f.name: torch.zeros(count, dtype=torch.long) if f.kind in ("id", "code") else torch.zeros(count, f.size)
        for f in fields
    }
    stream = Stream(inputs, torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.arange(count).double())
    return Dataset("small", task, fields, (stream,), label_scale=12.5, classes=classes)  # type: ignore[arg-type]


def describe_model(model: ModelConfig) -> ModelInfo:
    """The model as an edge describes it."""
    metadata = model_metadata(EdgeConfig(edge="berlin", region="DE", model=model))
    return msgspec.json.decode(msgspec.json.encode(metadata), type=ModelInfo)


@pytest.mark.parametrize(
    ("made", "builtin"),
    [
        (data(), "deepfm"),
        (data("regress"), "deepfm"),
        (data("regress", FIELDS[3:]), "mlp"),
        (data("classify", FIELDS[3:]), "deepfm"),
        (synthetic(Store(edges=2, events=50)), "deepfm"),
    ],
)
def test_the_printed_model_is_one_that_an_edge_takes_and_that_fits(made: Dataset, builtin: str) -> None:
    config = build(tomllib.loads(model_section(made, rate=0.01))["model"], ModelConfig)
    assert (config.builtin, config.task, config.label_scale) == (
        builtin,
        made.task,
        made.label_scale if made.task == "regress" else 1.0,
    )
    assert config.make().fields == tuple(f.name for f in made.fields)
    assert find_differences(made, describe_model(config)) == []


def test_everything_that_differs_is_named() -> None:
    other = (Field("user", "code", 10), Field("tags", "set", 5), Field("x", "number", 2), Field("age", "number"))
    config = build(tomllib.loads(model_section(data(fields=other), name="shop"))["model"], ModelConfig)
    with pytest.raises(ModelMismatch) as found:
        check_compatible("http://edge", data("regress"), describe_model(config))
    assert found.value.differences == (
        "task: the model has classify; the data have regress",
        "field user: the model takes a code (INT64); the data have an id or a category (BYTES)",
        "field kind: not in the model; the data have a code (INT64)",
        "field tags: the model takes numbers or a set of size 5 (FP32); "
        "the data have numbers or a set of size 4 (FP32)",
        "field age: not in the data; the model takes it",
    )
    assert str(found.value).startswith("http://edge: its model 'shop' does not fit the data: task: ")


def test_a_server_that_does_not_report_its_task_may_have_any() -> None:
    config = build(tomllib.loads(model_section(data()))["model"], ModelConfig)
    model = msgspec.structs.replace(describe_model(config), parameters=ModelParameters())
    assert find_differences(data("regress"), model) == []


@pytest.mark.parametrize(
    ("model", "sent", "fits"),
    [
        (("no", "yes"), ("no", "yes"), True),
        (("0", "1"), ("false", "true"), True),
        (None, ("no", "yes"), True),
        (("no", "yes"), None, True),
        (("no", "yes"), ("maybe", "no"), False),
    ],
)
def test_labels_must_mean_the_same_in_the_data_and_in_the_model(
    model: tuple[str, str] | None, sent: tuple[str, str] | None, fits: bool
) -> None:
    config = build(tomllib.loads(model_section(data(classes=model)))["model"], ModelConfig)
    said = "labels: the model has no for 0 and yes for 1; the data have maybe for 0 and no for 1"
    assert find_differences(data(classes=sent), describe_model(config)) == ([] if fits else [said])


NAMES = ["berlin", "paris", "x=y"]


def test_edges_are_assigned_by_name_and_otherwise_in_order() -> None:
    assert assign(NAMES, ["http://1"], []) == {"berlin": "http://1"}
    assert assign(NAMES, ["http://1", "http://2/"], ["paris=http://1"]) == {"berlin": "http://2", "paris": "http://1"}
    assert assign(NAMES, [], ["x=y=http://1:80/", "berlin=https://2"]) == {"berlin": "https://2", "x=y": "http://1:80"}


@pytest.mark.parametrize(
    ("urls", "mapped", "said"),
    [
        ([], [], "url: found 'none'; allowed: at least one address of an edge"),
        (["http://1"] * 2, [], "url: found 'http://1'; allowed: each address once"),
        ([f"http://{i}" for i in range(4)], [], "found '4 addresses'; allowed: at most one for each of the 3 edges"),
        ([], ["rome=http://1"], "map: found 'rome'; allowed: one of berlin, paris, x=y"),
        ([], ["berlin"], "map: found 'berlin'; allowed: EDGE=URL"),
        ([], ["=http://1"], "map: found '=http://1'; allowed: EDGE=URL"),
        ([], ["berlin=http://1", "berlin=http://2"], "each edge once; berlin goes to http://1 already"),
        ([], ["berlin=http://1", "paris=http://1"], "url: found 'http://1'; allowed: each address once"),
    ],
)
def test_an_invalid_assignment_is_refused(urls: list[str], mapped: list[str], said: str) -> None:
    with pytest.raises(InvalidValue) as found:
        assign(NAMES, urls, mapped)
    assert said in str(found.value)
