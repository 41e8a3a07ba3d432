"""The weights of a ridge are those of a ridge regression on all batches so far."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.labels import LABELS
from alphaedge.core.model import Model
from alphaedge.core.online import Online, learn
from alphaedge.core.ridge import PENALTY, step
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue
from alphaedge.models.table_model import RidgeLinear


class Line(nn.Module):
    """A ridge alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = RidgeLinear(2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(x)
        return found


def test_the_weights_are_those_of_a_ridge_regression() -> None:
    """In a fixed unit; the statistics of the labels move only a little after many of them."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(200, 2)), rng.normal(size=200)
    y = 3 + x @ np.array([2.0, -1.0]) + 0.1 * noise
    model = Model(Line().double(), fields=["x"], loss="mse", centre=True, ridge="linear")
    state = ModelState.start([model], [0])
    state.buffers[LABELS] = torch.tensor([[1e12, 3.0, 4.0]], dtype=torch.float64)
    for n in range(0, 200, 10):
        part = Batch((torch.tensor(x[None, n : n + 10]),), (), torch.tensor(y[None, n : n + 10]))
        learn(state, part, OneAtATime(model), Online(Adam(0.1)))
        state.buffers[LABELS] = torch.tensor([[1e12, 3.0, 4.0]], dtype=torch.float64)
    whole = np.concatenate([x, np.ones((200, 1))], axis=1)
    gram = whole.T @ whole
    expected = np.linalg.solve(gram + 3 * PENALTY * np.eye(3), whole.T @ ((y - 3) / 2))
    # Older examples fade by 10 in 20,000 a batch, in the gram alone.
    np.testing.assert_allclose(state.dense[0].numpy(), expected, rtol=0.02, atol=0.01)


def test_labels_without_a_unit_move_nothing() -> None:
    assert not step(torch.eye(2).unsqueeze(0), torch.ones(1, 2), torch.zeros(1), 5).any()


def test_one_step_by_hand() -> None:
    """One input of 1 with an error of 1 deviation: the weight goes 1 / (1 + penalty) of the way."""
    slope = torch.tensor([[-2.0 * 3.0 * 3.0]])  # of the squared error 3 deviations of 3 off, by a weight in deviations
    found = step(torch.ones(1, 1, 1), slope, torch.tensor([3.0]), 1)
    assert found.item() == pytest.approx(1 / (1 + PENALTY))


def test_a_ridge_needs_a_centred_model_and_its_parts() -> None:
    with pytest.raises(InvalidValue, match="centre"):
        Model(Line(), fields=["x"], loss="mse", ridge="linear")
    with pytest.raises(InvalidValue, match="ridge"):
        Model(Line(), fields=["x"], loss="mse", centre=True, ridge="other")
