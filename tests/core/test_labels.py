"""Outputs of centred models are counted from the labels so far, in their unit."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients, OneAtATime, Stacked
from alphaedge.core.labels import LABELS, LEVEL
from alphaedge.core.model import Model
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue

ONLINE = Online(Adam(0.01))


def one_weight(**said: Any) -> Model:
    """The model w x + b in double precision, w = 2 and b = 0 at the start."""
    module = nn.Linear(1, 1).double()
    with torch.no_grad():
        module.weight.fill_(2)
        module.bias.zero_()
    return Model(module, fields=["x"], **{"loss": "mse"} | said)


def batch(x: list[float], y: list[float]) -> Batch:
    return Batch((torch.tensor(x, dtype=torch.float64).view(1, -1, 1),), (), torch.tensor([y], dtype=torch.float64))


def state_after(model: Model, *batches: Batch, gradients: Gradients | None = None) -> ModelState:
    state = ModelState.start([model], [0])
    for each in batches:
        learn(state, each, gradients or OneAtATime(model), ONLINE)
    return state


def outputs(model: Model, state: ModelState, x: list[float]) -> Tensor:
    return predict(state, batch(x, [0.0] * len(x)), OneAtATime(model))[0]


@pytest.mark.parametrize("stacked", [False, True])
def test_outputs_are_counted_from_the_mean_of_the_labels_so_far_in_deviations(stacked: bool) -> None:
    model = one_weight(centre=True)
    gradients: Gradients = Stacked(model, trace=False) if stacked else OneAtATime(model)
    state = state_after(model, batch([1, 0], [490, 510]), gradients=gradients)
    assert state.buffers[LABELS].tolist() == [[2, 500, 100]]
    torch.testing.assert_close(
        predict(state, batch([0.5, 0], [0, 0]), gradients)[0], torch.tensor([510.0, 500.0], dtype=torch.float64)
    )


def test_the_first_batch_teaches_where_labels_lie_and_nothing_else() -> None:
    model = one_weight(centre=True)
    state = state_after(model, batch([1, 0], [490, 510]))
    torch.testing.assert_close(state.dense[0], model.initial_dense())
    assert not state.dense_v.any(), "one large error would slow all later steps"
    learn(state, batch([1, 0], [490, 510]), OneAtATime(model), ONLINE)
    assert not torch.equal(state.dense[0], model.initial_dense())


def test_a_prediction_uses_no_label_of_its_own_batch() -> None:
    model = one_weight(centre=True)
    found = []
    for label in (3.0, 1e6):
        state = state_after(model, batch([1, 0], [490, 510]))
        found.append(learn(state, batch([1, 0], [label, 500]), OneAtATime(model), ONLINE)[0])
    assert torch.equal(*found)


def test_logits_are_counted_from_the_log_odds_so_far() -> None:
    model = one_weight(loss="bce", centre=True)
    state = state_after(model, batch([1, 0, 0, 0], [1, 0, 0, 0]))
    assert outputs(model, state, [0]).item() == pytest.approx(math.log((1 + 0.5) / (3 + 0.5)))


def test_with_a_last_value_outputs_are_changes_since_then() -> None:
    model = one_weight(last="x")
    with torch.no_grad():
        model.module.weight.zero_()  # type: ignore[union-attr]
    assert outputs(model, ModelState.start([model], [0]), [7, -3]).tolist() == [7, -3]
    state = state_after(model, batch([10, 20], [11, 23]))
    assert state.buffers[LABELS].tolist() == [[2, 2, 1]], "of the changes 1 and 3"
    assert state.buffers[LEVEL].tolist() == [[17]]
    assert outputs(model, state, [7]).tolist() == [9]


def test_the_mean_label_stands_for_a_missing_last_value() -> None:
    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return self.weight * x.nan_to_num().squeeze(-1)

    model = Model(Nothing(), fields=["x"], loss="mse", last="x")
    state = state_after(model, batch([10, 20], [11, 23]))
    assert outputs(model, state, [math.nan]).tolist() == [17 + 2]


def test_logarithms_change_by_factors() -> None:
    model = one_weight(loss="log", last="x")
    with torch.no_grad():
        model.module.weight.zero_()  # type: ignore[union-attr]
    state = state_after(model, batch([9, 99], [19, 199]))  # twice, but for the 1 that log1p adds
    prediction = model.loss.link(outputs(model, state, [49]))
    torch.testing.assert_close(prediction, torch.tensor([99.0], dtype=torch.float64))


def test_labels_that_do_not_vary_are_predicted_as_they_are() -> None:
    model = one_weight(centre=True)
    state = state_after(model, batch([1, 2], [5, 5]), batch([3, 4], [5, 5]))
    assert outputs(model, state, [1, 100]).tolist() == [5, 5]
    torch.testing.assert_close(state.dense[0], model.initial_dense())


def test_other_models_know_nothing_of_labels() -> None:
    assert not one_weight().initial_buffers()


def test_what_is_no_field_is_no_last_value() -> None:
    with pytest.raises(InvalidValue, match="last"):
        one_weight(last="z")
