"""From options to a data set: what was not given stays out, and label noise is that of the simulator."""

from typing import Any

import pytest
import torch
from rich.console import Console

from alphaedge import Dataset, Field, Settings, Stream
from alphaedge.cli import dataset
from alphaedge.data.stream import Task


def noisy(task: Task, labels: list[float]) -> Dataset:
    """One edge whose labels are all flipped."""
    count = len(labels)
    inputs = {"x": torch.zeros(count, 1)}
    stream = Stream(inputs, torch.tensor(labels), torch.arange(count, dtype=torch.float64))
    return Dataset("noisy", task, (Field("x", "number", 1),), (stream,), noise={0: 1.0})


@pytest.mark.parametrize(
    ("task", "labels", "flipped"),
    [
        ("classify", [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]),
        ("regress", [10.0, 20.0, 40.0], [40.0, 30.0, 10.0]),
    ],
)
def test_noise_mirrors_labels_in_their_range(
    task: Task, labels: list[float], flipped: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "make_data", lambda settings, seed: noisy(task, labels))
    data = dataset.load_dataset(Settings(), Console(quiet=True))
    assert data.streams[0].labels.tolist() == flipped
    assert not data.noise, "it is in the labels now"


def test_options_that_were_not_given_are_dropped_in_groups_too() -> None:
    options: dict[str, Any] = {"a": None, "b": 0, "c": {"d": None}, "e": {"f": False, "g": None}}
    assert dataset.drop_unset(options) == {"b": 0, "e": {"f": False}}
