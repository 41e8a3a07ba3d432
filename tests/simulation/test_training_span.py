"""A span of many edges is each edge's own loop of predicting and learning, whatever gaps its plan has."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from alphaedge import Adam, Conditions
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.state import ModelState
from alphaedge.simulation.batches import Batches, Inputs, Labels
from alphaedge.simulation.training_span import Plan, TrainingSpan, run_span

from .fleets import factors, normalised, shop_data

SIZE, EDGES = 4, 3

# Edge 0 predicts and learns at once, edge 1 learns late and pauses, edge 2 is done early.
PLANS: dict[int, tuple[list[int], list[int]]] = {
    0: ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    1: ([-1, 0, 1, 2, 3, 4], [7, -1, -1, 0, 1, 6]),
    2: ([5, 6], [-1, 6]),
}


@dataclass
class Setting:
    batches: Batches
    gradients: OneAtATime
    models: ModelState


def setting(times: int = 1) -> Setting:
    torch.manual_seed(0)
    data = shop_data(edges=EDGES, events=100)
    model = factors(30, 20)
    inputs = Inputs.cut(data, model, SIZE)
    batches = Batches([inputs], [Labels.draw(data, SIZE, Conditions(), 0, torch.float32)])
    rows = [own.named.repeat(times, 1) for own in batches.own_rows]
    models = ModelState.start([model], [0] * EDGES * times, rows=rows)
    return Setting(batches, OneAtATime(model), models)


def loop(given: Setting, online: Online) -> dict[tuple[int, int], Tensor]:
    """The same by hand: edge by edge, whole tables, no working set."""
    found = {}
    for edge, (predicted, trained) in PLANS.items():
        some = torch.tensor([edge])
        for p, t in zip(predicted, trained, strict=True):
            part = given.models.select(some)
            if p >= 0:
                batch = given.batches.get(some, torch.tensor([p]))
                found[edge, p] = predict(part, batch, given.gradients)[0]
            if t >= 0:
                learn(part, given.batches.get(some, torch.tensor([t])), given.gradients, online)
                given.models.write(some, part)
    return found


def span_of(plans: dict[int, tuple[list[int], list[int]]]) -> TrainingSpan:
    return TrainingSpan.of([Plan(edge, edge, *batches) for edge, batches in plans.items()])


def everything(models: ModelState) -> list[Tensor]:
    tables = [x for t in models.tables for x in (t.value, t.m, t.v)]
    return [models.dense, models.dense_m, models.dense_v, models.steps.float(), *tables]


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("same_pass", [True, False])
@pytest.mark.parametrize("local_steps", [1, 2])
def test_a_span_is_a_loop_over_its_edges(lazy: bool, same_pass: bool, local_steps: int) -> None:
    online = Online(Adam(0.05, lazy_rows=lazy), local_steps)
    together, alone = setting(), setting()
    span = span_of(PLANS)
    for _ in range(2):  # the second starts from moments that are not zero
        outputs = run_span(together.models, span, together.batches, together.gradients, online, same_pass=same_pass)
        expected = loop(alone, online)
        for place, (edge, (predicted, _)) in enumerate(PLANS.items()):
            for column in range(span.predicted.shape[1]):
                number = predicted[column] if column < len(predicted) else -1
                if number >= 0:
                    assert torch.allclose(outputs[place, column], expected[edge, number], atol=1e-5)
                else:
                    assert bool(outputs[place, column].isnan().all())
        for mine, theirs in zip(everything(together.models), everything(alone.models), strict=True):
            assert torch.allclose(mine, theirs, atol=2e-5)


@pytest.mark.parametrize("lazy", [True, False])
def test_the_scratch_row_stays_clean(lazy: bool) -> None:
    given = setting()
    online = Online(Adam(0.05, lazy_rows=lazy))
    run_span(given.models, span_of(PLANS), given.batches, given.gradients, online, same_pass=True)
    for table in given.models.tables:
        assert not bool(table.value[:, -1].any())
        assert not bool(table.m[:, -1].any())


def test_with_lazy_rows_only_rows_of_trained_batches_move_and_with_dense_rows_momentum_goes_on() -> None:
    moved = {}
    for lazy in (True, False):
        given = setting()
        online = Online(Adam(0.05, lazy_rows=lazy))
        first, second = span_of({0: ([0], [0])}), span_of({0: ([1], [1])})
        run_span(given.models, first, given.batches, given.gradients, online, same_pass=True)
        before = given.models.tables[1].value.clone()
        run_span(given.models, second, given.batches, given.gradients, online, same_pass=True)
        changed = (given.models.tables[1].value != before).any(-1)
        assert not bool(changed[1:].any())
        moved[lazy] = set(changed[0].nonzero().flatten().tolist())
    scratch = given.models.tables[1].scratch
    named = [set(given.batches.rows(torch.tensor([0]), torch.tensor([t]))[1][0].tolist()) - {scratch} for t in (0, 1)]
    assert moved[True] == named[1]
    assert moved[False] == named[0] | named[1]
    assert named[0] - named[1]


def test_plans_of_different_length_are_filled_up_at_the_end() -> None:
    span = span_of(PLANS)
    assert span.edges.tolist() == [0, 1, 2]
    assert span.predicted[2].tolist() == [5, 6, -1, -1, -1, -1]
    assert span.trained[2].tolist() == [-1, 6, -1, -1, -1, -1]


def test_two_models_of_an_edge_in_one_span_are_two_spans() -> None:
    """Mixed and home models train as one stack, on the same batches, each by its own plan."""
    online, mixed, home = Online(Adam(0.05)), ([0, 1, 2], [0, -1, 1]), ([0, 1, 2], [0, 1, 2])
    given, first, second = setting(), setting(), setting()
    whole = setting(times=2).models
    one, other = whole.halves()
    plans = [Plan(0, 0, *mixed), Plan(len(one), 0, *home)]
    run = (given.batches, given.gradients, online)
    outputs = run_span(whole, TrainingSpan.of(plans), *run, same_pass=True)
    for place, (alone, part, plan) in enumerate(((first, one, mixed), (second, other, home))):
        expected = run_span(alone.models, span_of({0: plan}), *run, same_pass=True)
        torch.testing.assert_close(outputs[place : place + 1], expected, equal_nan=True, rtol=1e-5, atol=1e-6)
        for mine, theirs in zip(everything(part), everything(alone.models), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_module_whose_outputs_depend_on_the_mode_needs_two_passes() -> None:
    """The forward pass of training is not the prediction: same_pass would be wrong here, and is found out."""
    model = normalised()
    part = ModelState.start([model], [0])
    x = torch.randn(1, 8, 2)
    gradients = OneAtATime(model)
    training = gradients.gradient(part.dense, [], part.buffers, [x], torch.zeros(1, 8)).outputs
    assert not torch.allclose(training, gradients.outputs(part.dense, [], part.buffers, [x]), atol=1e-3)
