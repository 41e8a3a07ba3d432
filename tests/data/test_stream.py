"""Bad data is refused at the door: by edge and field, with what was found and what is allowed."""

import dataclasses
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from alphaedge import Dataset, Field, InvalidValue, Stream

FIELDS = (
    Field("item", "id", 5),
    Field("kind", "code", 3),
    Field("tags", "set", 2),
    Field("x", "number", 2),
)


def stream(count: int = 4, **changes: Tensor) -> Stream:
    inputs = {
        "item": torch.arange(count) % 5,
        "kind": torch.arange(count) % 3,
        "tags": torch.ones(count, 2),
        "x": torch.zeros(count, 2),
    }
    parts: dict[str, Any] = {
        "labels": (torch.arange(count) % 2).float(),
        "times": torch.linspace(0, 1, count, dtype=torch.float64),
    }
    parts |= {name: changes.pop(name) for name in list(changes) if name in parts}
    return Stream(inputs | changes, **parts)


def dataset(*streams: Stream, task: str = "classify") -> Dataset:
    return Dataset("a few", task, FIELDS, streams)  # type: ignore[arg-type]


def refusal(*streams: Stream, task: str = "classify") -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        dataset(*streams, task=task)
    return caught.value


def test_good_data_passes() -> None:
    data = dataset(stream(), stream(7))
    assert [len(s) for s in data.streams] == [4, 7]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_input_that_is_not_finite_is_refused(bad: float) -> None:
    x = torch.zeros(4, 2)
    x[2, 1] = bad
    error = refusal(stream(), stream(x=x))
    assert error.field == "edge 1: field x"
    assert error.found == pytest.approx(bad, nan_ok=True)
    assert error.allowed == "finite numbers"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_label_that_is_not_finite_is_refused(bad: float, task: str) -> None:
    error = refusal(stream(labels=torch.tensor([0.0, 1.0, bad, 0.0])), task=task)
    assert error.field == "edge 0: labels"
    assert error.found == pytest.approx(bad, nan_ok=True)


@pytest.mark.parametrize("bad", [2.0, -1.0, 0.5])
def test_a_class_that_is_neither_zero_nor_one_is_refused(bad: float) -> None:
    error = refusal(stream(labels=torch.tensor([0.0, 1.0, bad, 0.0])))
    assert (error.field, error.found) == ("edge 0: labels", bad)
    assert error.allowed.startswith("0 or 1")


def test_any_finite_label_may_be_regressed() -> None:
    assert dataset(stream(labels=torch.tensor([0.0, -1.0, 2.5, 1e6])), task="regress").label_range() == (-1.0, 1e6)


@pytest.mark.parametrize(("field", "bad", "top"), [("item", 5, 4), ("item", -1, 4), ("kind", 3, 2), ("kind", -7, 2)])
def test_an_id_outside_its_table_is_refused(field: str, bad: int, top: int) -> None:
    error = refusal(stream(), stream(**{field: torch.tensor([0, 1, bad, 0])}))
    assert (error.field, error.found) == (f"edge 1: field {field}", bad)
    assert error.allowed.endswith(f"from 0 to {top}")


def test_ids_that_are_not_whole_are_refused() -> None:
    error = refusal(stream(item=torch.zeros(4)))
    assert error.field == "edge 0: field item"
    assert "float32" in str(error)
    assert "whole numbers" in error.allowed


@pytest.mark.parametrize("wrong", [torch.zeros(4, 3), torch.zeros(4), torch.zeros(3, 2), torch.zeros(4, 2).long()])
def test_numbers_of_another_shape_or_type_are_refused(wrong: Tensor) -> None:
    error = refusal(stream(x=wrong))
    assert error.field == "edge 0: field x"
    assert "(4, 2)" in error.allowed


def test_a_field_too_many_or_too_few_is_refused() -> None:
    assert refusal(stream(extra=torch.zeros(4))).field == "edge 0: fields"
    short = stream()
    less = replace(short, inputs={k: v for k, v in short.inputs.items() if k != "x"})
    assert refusal(less).allowed == "exactly item, kind, tags, x"


def test_a_step_back_in_time_is_refused() -> None:
    error = refusal(stream(times=torch.tensor([0.0, 2.0, 1.0, 3.0])))
    assert error.field == "edge 0: times"
    assert "order" in error.allowed


def test_events_of_one_moment_are_in_order() -> None:
    assert len(dataset(stream(times=torch.zeros(4))).streams) == 1


@pytest.mark.parametrize("times", [torch.zeros(3), torch.zeros(4, 1), torch.tensor([0.0, 1.0, math.nan, 2.0])])
def test_times_must_be_finite_and_one_for_each_label(times: Tensor) -> None:
    assert refusal(stream(times=times)).field == "edge 0: times"


def test_an_unknown_task_is_refused() -> None:
    error = refusal(stream(), task="rank")
    assert (error.field, error.found, error.allowed) == ("task", "rank", "one of classify, regress")


def test_a_data_set_without_edges_is_refused() -> None:
    assert refusal().field == "streams"


@pytest.mark.parametrize(("task", "metric"), [("classify", "AUC"), ("regress", "1-SMAPE")])
def test_the_task_decides_the_metric(task: str, metric: str) -> None:
    assert dataset(stream(), task=task).metric == metric


def test_the_range_of_labels_is_that_of_all_edges() -> None:
    low, high = stream(labels=torch.tensor([1.0, 2.0, 3.0, 4.0])), stream(labels=torch.tensor([-5.0, 0.0, 0.0, 1.0]))
    assert dataset(low, high, task="regress").label_range() == (-5.0, 4.0)


@pytest.mark.parametrize(
    ("values", "field"),
    [({"item": ["a", "b"]}, "values: item"), ({"kind": ["a", "b", "c"]}, "values"), ({"x": []}, "values")],
)
def test_raw_values_that_do_not_fit_an_id_field_are_refused(values: dict[str, list[str]], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        replace(dataset(stream()), values=values)
    assert caught.value.field == field


def test_edges_with_less_than_a_batch_are_left_out_by_name() -> None:
    streams = tuple(Stream({"x": torch.zeros(n, 1)}, torch.zeros(n), torch.arange(n).double()) for n in (30, 3, 20))
    data = Dataset("d", "regress", (Field("x", "number", 1),), streams, clusters=(0, 1, 2), names=("a", "b", "c"))
    data = dataclasses.replace(data, noise={1: 0.1, 2: 0.2})
    kept = data.without_small(20)
    assert (kept.names, kept.clusters, kept.noise) == (("a", "c"), (0, 2), {1: 0.2})
    assert [len(stream) for stream in kept.streams] == [30, 20]
    assert kept.notes == ("left out, with fewer events than a batch of 20: b (3); --batch-size sets another size",)
    assert data.without_small(3) is data
    assert data.without_small(31) is data, "nobody is left: the batch size is refused later, by name"
