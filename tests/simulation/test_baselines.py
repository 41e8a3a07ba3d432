"""Simple baselines use what a method knows at the time, and are scored like a method."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from alphaedge import Conditions, Dataset, Field, Store, Stream, simulate
from alphaedge.simulation.baselines import (
    PRIOR_EVENTS,
    Baseline,
    events_known,
    guesses,
    mean_by,
    running_mean,
    score_baselines,
)
from alphaedge.simulation.ridge_baseline import MAX_COLUMNS, PENALTY, ridge_columns, ridge_predictions
from alphaedge.simulation.summary import baseline_rows

SIZE = 4
FIELDS = (Field("shop", "category", 3), Field("item", "id", 5), Field("x", "number", 2))


def sales(task: str = "regress", edges: int = 2, events: int = 40, seed: int = 0) -> Dataset:
    """Labels that are the item's level, and ``x[1]`` that is nearly the label."""
    rng = torch.Generator().manual_seed(seed)
    streams = []
    for _ in range(edges):
        item, shop = (torch.randint(0, size, (events,), generator=rng) for size in (5, 3))
        labels = 10.0 + 5 * item + torch.rand(events, generator=rng)
        x = torch.stack([torch.rand(events, generator=rng), labels + 0.01], dim=1)
        if task == "classify":
            labels = (torch.rand(events, generator=rng) < (item + 1) / 6).float()
        inputs = {"shop": shop, "item": item, "x": x}
        streams.append(Stream(inputs, labels, torch.arange(events, dtype=torch.float64)))
    return Dataset("sales", task, FIELDS, tuple(streams))  # type: ignore[arg-type]


def predictions(data: Dataset, labels: Tensor, delay: int) -> dict[str, Tensor]:
    return {g.name: g.predictions for g in guesses(data, data.streams[0], labels, SIZE, delay)}


@given(st.integers(0, 3), st.integers(0, 39))
def test_a_label_changes_only_predictions_of_batches_after_it_is_revealed(delay: int, place: int) -> None:
    data = sales()
    labels = data.streams[0].labels
    changed = labels.clone()
    changed[place] += 1000
    before, after = predictions(data, labels, delay), predictions(data, changed, delay)
    revealed = (place // SIZE + 1 + delay) * SIZE
    for name, old in before.items():
        torch.testing.assert_close(old[:revealed], after[name][:revealed])
        if revealed < len(labels) and name == "running mean":
            assert bool((old[revealed:] != after[name][revealed:]).all())


@given(st.integers(1, 7), st.integers(0, 3), st.integers(0, 99))
def test_the_mean_by_a_field_is_that_of_a_loop_over_events(size: int, delay: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, labels = torch.from_numpy(rng.integers(0, 4, 30)), torch.from_numpy(rng.random(30))
    known = events_known(30, size, delay)
    usual = running_mean(labels, known, 0.5)
    found = mean_by(values, labels, known, usual)
    for event in range(30):
        seen = max(0, event // size - delay) * size
        same = labels[:seen][values[:seen] == values[event]]
        mean = float(labels[:seen].mean()) if seen else 0.5
        expected = (float(same.sum()) + PRIOR_EVENTS * mean) / (len(same) + PRIOR_EVENTS)
        assert float(found[event]) == pytest.approx(expected)


def test_the_last_label_is_the_last_that_was_revealed() -> None:
    data = sales()
    labels = data.streams[0].labels
    found = predictions(data, labels, delay=1)["last label"]
    assert found[: 2 * SIZE].tolist() == [0.0] * 8, "nothing is revealed yet"
    assert found[2 * SIZE : 3 * SIZE].tolist() == [float(labels[SIZE - 1])] * SIZE


def test_every_field_has_its_baseline() -> None:
    labels = sales().streams[0].labels
    usual = {"running mean", "mean by shop", "mean by item", "x[0] as it is", "x[1] as it is", "last label"}
    usual |= {"ridge regression"}
    assert set(predictions(sales(), labels, 0)) == usual
    data = sales("classify")
    assert set(predictions(data, data.streams[0].labels, 0)) == {"running rate", "rate by shop", "rate by item"}


def test_scores_are_means_over_batches_and_an_edge_starts_with_its_first_batch() -> None:
    data = sales()
    first = [0, 3]
    labels = {edge: data.streams[edge].labels[SIZE * first[edge] :].view(-1, SIZE) for edge in range(2)}
    found = score_baselines(data, labels, first, 0)["x[1] as it is"]
    for edge in range(2):
        guess = data.streams[edge].inputs["x"][SIZE * first[edge] :, 1].view(-1, SIZE)
        error = ((guess - labels[edge]).abs() / (guess + labels[edge])).mean(1)
        assert found.per_edge[edge] == pytest.approx(float((1 - error).mean()), abs=1e-6)
    late = score_baselines(data, labels, first, 0)["running mean"].per_edge[1]
    alone = dataclasses.replace(data, streams=(_from(data.streams[1], SIZE * 3),))
    assert score_baselines(alone, {0: labels[1]}, [0], 0)["running mean"].per_edge == [late]


def _from(stream: Stream, start: int) -> Stream:
    return Stream({k: v[start:] for k, v in stream.inputs.items()}, stream.labels[start:], stream.times[start:])


def test_baselines_of_shards_join_in_the_order_of_their_edges() -> None:
    one, two = Baseline("usual", [0.1], [0.2], [0.3]), Baseline("usual", [None, 0.5], [0.6, 0.7], [0.8, 0.9])
    assert Baseline.joined([one, two]) == Baseline("usual", [0.1, None, 0.5], [0.2, 0.6, 0.7], [0.3, 0.8, 0.9])


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("classify", {"rate by item"}),
        ("regress", {"x[1] as it is", "mean by item", "running mean", "last label", "ridge regression"}),
    ],
)
def test_a_simulation_shows_the_best_baseline_of_each_kind(task: str, names: set[str]) -> None:
    data = sales(task, events=400)
    found = simulate(methods=["noagg", "uniweight"], data=data, batch_size=20, conditions=Conditions(delay=1))
    rows = found.summary()["baselines"]
    assert set(rows) == names
    means = [row["mean"] for row in rows.values()]
    assert means == sorted(means, reverse=True)
    labels = {edge: stream.labels.view(-1, 20) for edge, stream in enumerate(data.streams)}
    again = score_baselines(data, labels, [0, 0], 1)
    for name, row in rows.items():
        assert row["per_edge"] == pytest.approx(again[name].per_edge)


def test_each_seed_of_a_store_has_baselines_on_its_own_data() -> None:
    store = Store(edges=2, clusters=1, events=200, items=20, users=10)
    found = simulate(methods=["noagg", "uniweight"], store=store, seeds=2, batch_size=20)
    one, two = [o.baselines["rate by item"] for o in found.outcomes("noagg")]
    assert one != two
    assert not any(o.baselines for o in found.outcomes("uniweight")), "they are the same for all methods"
    assert baseline_rows(found.outcomes("uniweight"), "classify") == {}


@pytest.mark.parametrize("level", [0.0, 1e9])
def test_the_ridge_of_an_edge_is_that_of_scikit_learn_on_what_is_revealed(level: float) -> None:
    stream = sales(events=80).streams[0]
    shifted = Stream({**stream.inputs, "x": stream.inputs["x"].double() + level}, stream.labels, stream.times)
    found = ridge_predictions(FIELDS, shifted, shifted.labels, events_known(80, 20, 0))
    one_hot = [torch.nn.functional.one_hot(stream.inputs[n], k) for n, k in (("shop", 3), ("item", 5))]
    inputs = torch.cat([*one_hot, stream.inputs["x"].double()], dim=1).numpy()
    for known in (20, 40, 60):
        scaler = StandardScaler().fit(inputs[:known])
        model = Ridge(alpha=PENALTY).fit(scaler.transform(inputs[:known]), stream.labels[:known].double().numpy())
        there = slice(known, known + 20)
        expected = model.predict(scaler.transform(inputs[there]))
        np.testing.assert_allclose(found[there].numpy(), expected, rtol=1e-4 if level else 1e-8)


def test_a_ridge_knows_nothing_before_the_first_label_and_survives_missing_numbers_and_constant_columns() -> None:
    stream = sales().streams[0]
    x = stream.inputs["x"].clone()
    x[::3, 0], x[:, 1] = torch.nan, 7.0
    holes = Stream({**stream.inputs, "x": x}, stream.labels, stream.times)
    found = ridge_predictions(FIELDS, holes, holes.labels, events_known(40, SIZE, 1))
    assert found[: 2 * SIZE].tolist() == [0.0] * 2 * SIZE
    assert bool(found.isfinite().all())


def test_a_ridge_leaves_out_fields_with_more_values_than_it_has_columns_for() -> None:
    many = Field("user", "id", MAX_COLUMNS + 1)
    assert ridge_columns((many, *FIELDS)) == list(FIELDS)
