"""Gradients of single examples are those of autograd, one example at a time."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.model import IdTable, Model
from alphaedge.core.privacy.clipping import lengths, user_lengths, weighted_sum
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.per_example import Linear, PerExample, PerExampleGradients
from alphaedge.core.state import ModelState
from alphaedge.errors import ModelError
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.models.table_model import table_model

EDGES, EVENTS = 3, 7
FIELDS = (Field("user", "id", 9), Field("item", "id", 11), Field("job", "code", 4), Field("x", "number", 2))


class Tied(nn.Module):
    """The same linear layer twice, and a convolution: nothing here is a product of two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.look, self.out = nn.Linear(4, 4), nn.Conv1d(1, 2, 2), nn.Linear(6, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        turned = self.turn(torch.tanh(self.turn(x)))
        out: Tensor = self.out(self.look(turned.unsqueeze(1)).flatten(1))
        return out


class Row(nn.Module):
    """An id table that two fields look up."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.Embedding(9, 3), nn.Linear(6, 1)

    def forward(self, one: Tensor, two: Tensor) -> Tensor:
        out: Tensor = self.head(torch.cat([self.rows(one), self.rows(two)], dim=1))
        return out


def normalised_deepfm() -> Model:
    return deepfm(FIELDS, dim=3, hidden=(5,), normalise=True, loss="bce")


def plain_mlp() -> Model:
    return mlp((Field("x", "number", 4),), hidden=(6, 5), loss="mse", normalise=True)


def ridge() -> Model:
    return table_model(FIELDS, hidden=(5,))


def tied() -> Model:
    return Model(Tied(), fields=["x"], loss="mse")


def two_fields() -> Model:
    return Model(Row(), fields=["one", "two"], tables=[IdTable(("one", "two"), ("rows.weight",))], loss="bce")


MODELS = [normalised_deepfm, plain_mlp, ridge, tied, two_fields]


def make(build: Callable[[], Model]) -> tuple[Model, ModelState, Batch]:
    torch.manual_seed(1)
    model = build()
    sizes = {"user": 9, "item": 11, "job": 4, "one": 9, "two": 9}
    raw = [
        torch.randint(sizes[name], (EDGES, EVENTS)) if name in sizes else torch.randn(EDGES, EVENTS, _width(model))
        for name in model.fields
    ]
    inputs, rows = compact(raw, model.tables)
    state = ModelState.start([model], [0] * EDGES)
    state.dense += 0.3 * torch.randn_like(state.dense)
    for name, buffer in state.buffers.items():
        if name.endswith("variance"):
            buffer.fill_(2.0)
    return model, state, Batch(tuple(inputs), tuple(rows), torch.rand(EDGES, EVENTS).round())


def _width(model: Model) -> int:
    return 2 if "job" in model.fields else 4


def one_by_one(model: Model, state: ModelState, batch: Batch) -> Tensor:
    """The gradient of each example alone, [k, B, D]."""
    model.module.train(False)
    rows = [t.gather(t.flat(r)) for t, r in zip(state.tables, batch.rows, strict=True)]
    inputs, found = model.told(rows, batch.inputs), []
    for k in range(EDGES):
        for b in range(EVENTS):
            dense = state.dense[k].clone().requires_grad_()
            values = model.unpack(dense, [r[k] for r in rows])
            buffers = {name: x[k].clone() for name, x in state.buffers.items()}
            outputs = model.forward(values, buffers, [x[k, b : b + 1] for x in inputs])
            loss = model.loss.function(outputs, batch.labels[k, b : b + 1])
            (slope,) = torch.autograd.grad(loss, dense)
            found.append(slope)
    return torch.stack(found).view(EDGES, EVENTS, -1)


@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize("units", [False, True])
def test_lengths_and_sums_are_those_of_written_out_gradients(build: Callable[[], Model], units: bool) -> None:
    model, state, batch = make(build)
    found = PerExampleGradients(model)(state, batch)
    expected = one_by_one(model, state, batch)
    users = torch.tensor([[0, 1, 0, 2, 2, 2, 1]]).expand(EDGES, -1)
    everybody = torch.ones(EDGES, EVENTS, dtype=torch.bool)
    lot = Lot.of_users(batch, users, everybody) if units else Lot.of_events(batch)
    together = (lot.users.unsqueeze(2) == lot.users.unsqueeze(1)).float()
    own = lengths(found)
    own = user_lengths(found, own, lot, torch.ones(EDGES, EVENTS)) if units else own
    # Lengths of users have room for rounding (test_no_user_is_longer_than_rounding_says).
    torch.testing.assert_close(own, (together @ expected).norm(dim=2), rtol=1e-3 if units else 1e-4, atol=1e-5)
    weights = torch.rand(EDGES, EVENTS)
    summed = weighted_sum(found, weights, model.dense_size)
    torch.testing.assert_close(summed, (weights.unsqueeze(2) * expected).sum(1), rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 10_000), examples=st.integers(2, 7), cancels=st.sampled_from([1.0, 1e-3, 1e-6, 0.0]))
def test_no_user_is_longer_than_rounding_says(seed: int, examples: int, cancels: float) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(1, *shape, generator=generator)

    slopes, inputs, rest = draw(examples, 5), draw(examples, 40).abs() * 30, draw(examples, 6)
    for part in (slopes, inputs, rest):  # each example but the first nearly repeats it
        part[:, 1:] = part[:, :1] + cancels * part[:, 1:]
    signs = torch.ones(1, examples, 1)
    signs[:, examples // 2 :] = -1  # and half of them take back what the others add
    layer = Linear(slopes * signs, inputs, slice(0, 200), slice(200, 205))
    found = PerExample([layer], rest * signs, torch.arange(205, 211), (), draw(examples))
    batch = Batch((draw(examples, 1),), (), draw(examples))
    lot = Lot.of_users(batch, torch.zeros(1, examples, dtype=torch.long), torch.ones(1, examples, dtype=torch.bool))
    weights = torch.rand(1, examples, generator=generator)
    whole = [torch.einsum("ka,kb->kab", layer.slopes[0].double(), inputs[0].double()).flatten(1)]
    whole += [layer.slopes[0].double(), found.rest[0].double()]
    truth = float((weights[0].double() @ torch.cat(whole, dim=1)).norm())
    said = user_lengths(found, lengths(found), lot, weights)
    assert truth <= float(said.min()) * (1 + 1e-6)
    most = float((lengths(found) * weights).sum())
    assert float(said.max()) <= truth + 0.01 * most


def test_layers_that_are_called_once_with_a_vector_are_never_written_out() -> None:
    model, state, batch = make(plain_mlp)
    assert PerExampleGradients(model)(state, batch).rest.shape[2] == 0


def test_batch_norm_is_refused_since_its_statistics_cannot_be_kept_private() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    with pytest.raises(ModelError, match=r"running_mean.*RunningNorm"):
        PerExampleGradients(Model(module, fields=["x"], loss="mse"))
