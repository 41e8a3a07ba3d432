"""An edge on its own learns exactly as a loop that anybody would write with torch does."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphaedge import Conditions, Dataset, Model
from alphaedge.models.deepfm import deepfm
from alphaedge.simulation.task import make_model

from .fleets import linear, measured, normalised, predictions, seen, shop, shop_data, shop_model, shortened

RATE, SIZE = 0.01, 5

Step = Callable[[Tensor], None]


def dense_adam(net: nn.Module, model: Model) -> Step:
    """torch.optim.Adam over everything, nn.Embedding included."""
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def lazy_adam(net: nn.Module, model: Model) -> Step:
    """Adam by its formula; in id tables only for rows with a gradient. All count the edge's steps."""
    in_tables = {column.name for table in model.tables for column in table.slices}
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in net.named_parameters()}
    count = 0

    def step(loss: Tensor) -> None:
        nonlocal count
        count += 1
        net.zero_grad()
        loss.backward()
        for name, p in net.named_parameters():
            assert p.grad is not None
            rows = p.grad.flatten(1).any(1) if name in in_tables else slice(None)
            m, v = moments[name]
            g = p.grad[rows]
            m[rows] = 0.9 * m[rows] + 0.1 * g
            v[rows] = 0.999 * v[rows] + 0.001 * g * g
            ahead, spread = m[rows] / (1 - 0.9**count), (v[rows] / (1 - 0.999**count)).sqrt() + 1e-8
            with torch.no_grad():
                p[rows] -= RATE * ahead / spread

    return step


def adagrad_rows(net: nn.Module, model: Model) -> Step:
    """torch.optim.Adagrad for id tables, torch.optim.Adam for the rest."""
    in_tables = {column.name for table in model.tables for column in table.slices}
    parts: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, p in net.named_parameters():
        parts[name in in_tables].append(p)
    both = torch.optim.Adagrad(parts[True], lr=0.1, eps=1e-4), torch.optim.Adam(parts[False], lr=RATE)

    def step(loss: Tensor) -> None:
        net.zero_grad()
        loss.backward()
        for optimizer in both:
            optimizer.step()

    return step


def by_hand(
    data: Dataset, edge: int, model: Model, rule: Callable[[nn.Module, Model], Step], *, delay: int = 0, steps: int = 1
) -> Tensor:
    """Predictions of a plain online loop: predict batch t, then learn from batch t - delay."""
    net, stream = copy.deepcopy(model.module), data.streams[edge]
    step = rule(net, model)
    classify = data.task == "classify"
    loss = F.binary_cross_entropy_with_logits if classify else F.mse_loss

    def batch(t: int) -> tuple[list[Tensor], Tensor]:
        part = slice(t * SIZE, t * SIZE + SIZE)
        return [stream.inputs[f][part] for f in model.fields], stream.labels[part]

    found = []
    for t in range(len(stream) // SIZE):
        net.eval()
        with torch.no_grad():
            out = net(*batch(t)[0]).flatten()
        found.append(torch.sigmoid(out) if classify else out)
        if t >= delay:
            net.train()
            inputs, labels = batch(t - delay)
            for _ in range(steps):
                step(loss(net(*inputs).flatten(), labels))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("rows", "rule"), [("dense", dense_adam), pytest.param("lazy", lazy_adam, marks=pytest.mark.long)]
)
def test_deepfm_alone_learns_as_a_plain_loop_does(rows: str, rule: Callable[[nn.Module, Model], Step]) -> None:
    data = shortened(shop_data(edges=2, events=1400), SIZE * 202)
    plain = partial(deepfm, data.fields, tallies=())
    found = seen(methods=["noagg"], data=data, model=plain, id_rows=rows, rate=RATE, batch_size=SIZE)
    assert int(found.world.models.steps.min()) >= 200
    expected = by_hand(data, 1, make_model(plain, 0), rule)
    assert torch.allclose(predictions(found.world, 1), expected, atol=1e-4)


@pytest.mark.parametrize(("rows", "rule"), [("dense", dense_adam), ("lazy", lazy_adam), ("adagrad", adagrad_rows)])
@pytest.mark.parametrize("delay", [0, 3])
def test_with_a_delay_the_step_at_t_uses_batch_t_minus_delay(
    rows: str, rule: Callable[[nn.Module, Model], Step], delay: int
) -> None:
    """Aggregation periods of 4 batches do not get in the way, although what they keep is learned a little later."""
    data = shop_data(edges=2, events=250)
    make = shop_model(shop(edges=2))
    found = seen(
        methods=["noagg"],
        data=data,
        model=make,
        id_rows=rows,
        rate=RATE,
        batch_size=SIZE,
        executor="one-at-a-time",
        conditions=Conditions(delay=delay),
    )
    for edge in range(2):
        expected = by_hand(data, edge, make_model(make, 0), rule, delay=delay)
        assert torch.allclose(predictions(found.world, edge), expected, atol=1e-5)


def test_several_local_steps_are_several_steps_on_one_batch() -> None:
    data = measured(2, 30)
    found = seen(methods=["noagg"], data=data, model=linear, rate=RATE, batch_size=SIZE, local_steps=3)
    expected = by_hand(data, 1, make_model(linear, 0), dense_adam, steps=3)
    assert torch.allclose(predictions(found.world, 1), expected, atol=1e-5)


@pytest.mark.parametrize("executor", ["stacked", "one-at-a-time"])
def test_a_module_with_running_statistics_predicts_in_evaluation_mode_and_learns_in_training_mode(
    executor: str,
) -> None:
    data = measured(2, 60)
    found = seen(methods=["noagg"], data=data, model=normalised, rate=RATE, batch_size=SIZE, executor=executor)
    for edge in range(2):
        expected = by_hand(data, edge, make_model(normalised, 0), dense_adam)
        assert torch.allclose(predictions(found.world, edge), expected, atol=1e-4)


@pytest.mark.parametrize("delay", [0, 4])
def test_nothing_is_learned_before_the_first_reveal(delay: int) -> None:
    data = measured(2, 30)
    model = make_model(linear, 0)
    found = seen(
        methods=["alphaedge", "fedweight", "noagg"],
        data=data,
        model=linear,
        rate=0.1,
        batch_size=SIZE,
        executor="one-at-a-time",
        conditions=Conditions(delay=delay),
    )
    for world in found.worlds:
        for edge in range(2):
            with torch.no_grad():
                initial = model.module(data.streams[edge].inputs["x"]).view(-1, SIZE)
            same = torch.isclose(predictions(world, edge), initial, atol=1e-6).all(1).tolist()
            assert same[: delay + 1] == [True] * (delay + 1)
            # NoAgg learns at once; those that keep batches for their weights do, too, as E = 20 is far.
            assert not any(same[delay + 1 :])


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_an_edge_alone_does_not_depend_on_the_others(clock: str) -> None:
    data = measured(4, [30, 22, 41, 35])
    shared = {"methods": ["noagg"], "model": linear, "batch_size": SIZE, "clock": clock, "executor": "one-at-a-time"}
    all_four = seen(data=data, **(shared | {"executor": "stacked"}))
    for edge in range(4):
        one = seen(data=replace(data, streams=data.streams[edge : edge + 1]), **shared)
        assert torch.allclose(predictions(one.world, 0), predictions(all_four.world, edge), atol=1e-6)


def test_edges_with_different_initial_models_start_from_different_models() -> None:
    data = measured(3, 4)
    alike = replace(data, streams=data.streams[:1] * 3)
    same, different = (
        seen(methods=["noagg"], data=alike, model=linear, batch_size=SIZE, initial=i).world
        for i in ("shared", "different")
    )
    assert torch.allclose(predictions(same, 0), predictions(same, 1), atol=1e-6)
    assert not torch.allclose(predictions(different, 0)[0], predictions(different, 1)[0], atol=1e-3)
    assert not torch.allclose(predictions(different, 1)[0], predictions(different, 2)[0], atol=1e-3)


def test_a_model_of_double_precision_stays_so() -> None:
    data = measured(2, 20)

    def double() -> Model:
        return Model(nn.Linear(2, 1).double(), fields=["x"], loss="mse")

    found = seen(methods=["alphaedge", "noagg"], data=data, model=double, batch_size=SIZE, executor="one-at-a-time")
    assert all(world.models.dense.dtype == torch.float64 for world in found.worlds)
    assert all(row["mean"] is not None for row in found.results.summary()["methods"].values())
