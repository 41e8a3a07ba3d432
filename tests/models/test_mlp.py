"""The MLP computes matrix products and ReLUs over its fields side by side."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from alphaedge.core.batch import Batch
from alphaedge.core.fields import Field
from alphaedge.core.gradients import OneAtATime, Stacked, choose
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue
from alphaedge.models.mlp import MLP, make_layers, mlp
from alphaedge.models.running_norm import RunningNorm

FIELDS = (Field("x", "number", 3), Field("kind", "code", 4), Field("tags", "set", 2))


def _inputs(*leading: int) -> list[Tensor]:
    return [
        torch.randn(*leading, 3),
        torch.randint(0, 4, leading),
        torch.randint(0, 2, (*leading, 2)).float(),
    ]


def test_layers_go_down_to_one_output() -> None:
    kinds = [type(m) for m in make_layers(6, (5, 4))]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [(m.in_features, m.out_features) for m in make_layers(6, (5, 4)) if isinstance(m, nn.Linear)] == [
        (6, 5),
        (5, 4),
        (4, 1),
    ]
    assert len(make_layers(6, ())) == 1, "without hidden layers it is a linear model"


def test_the_output_is_what_numpy_computes() -> None:
    module = MLP(FIELDS, (5, 4))
    x, kind, tags = _inputs(7)
    h = np.concatenate([x.numpy(), np.eye(4)[kind.numpy()], tags.numpy()], axis=1)
    weights = [p.detach().numpy() for p in module.parameters()]
    for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        h = np.maximum(h @ w.T + b, 0)
    expected = (h @ weights[-2].T + weights[-1])[:, 0]
    np.testing.assert_allclose(module(x, kind, tags).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_one_output_per_example() -> None:
    assert MLP(FIELDS)(*_inputs(7)).shape == (7,)
    assert MLP(FIELDS)(*_inputs(1)).shape == (1,)


def test_as_a_model_it_has_no_id_tables_and_squared_error() -> None:
    model = mlp(FIELDS, hidden=(5,))
    assert model.tables == ()
    assert model.fields == ("x", "kind", "tags")
    assert model.dense_size == 9 * 5 + 5 + 5 + 1
    outputs, labels = torch.randn(4), torch.randn(4)
    torch.testing.assert_close(model.loss.function(outputs, labels), ((outputs - labels) ** 2).mean())


def test_it_can_classify() -> None:
    assert mlp(FIELDS, loss="bce").loss.link(torch.zeros(1)).item() == 0.5
    with pytest.raises(InvalidValue):
        mlp(FIELDS, loss="hinge")


@pytest.mark.parametrize("fields", [FIELDS[:1], FIELDS[2:], FIELDS[1:2], FIELDS])
def test_it_runs_stacked_with_any_fields(fields: tuple[Field, ...]) -> None:
    model = mlp(fields, hidden=(5,))
    names = [f.name for f in FIELDS]
    inputs = [_inputs(2, 4)[names.index(f.name)] for f in fields]
    dense = model.initial_dense().repeat(2, 1)
    engine, reason = choose(model, dense, [], {}, inputs, torch.zeros(2, 4))
    assert reason is None
    assert isinstance(engine, Stacked)
    expected = OneAtATime(model).gradient(dense, [], {}, inputs, torch.zeros(2, 4))
    torch.testing.assert_close(engine.gradient(dense, [], {}, inputs, torch.zeros(2, 4)).dense, expected.dense)


def test_it_works_in_double_precision() -> None:
    module = MLP(FIELDS, (5,)).double()
    x, kind, tags = _inputs(7)
    assert module(x.double(), kind, tags.double()).dtype == torch.float64
    assert MLP(FIELDS[1:2], (5,)).double()(kind).dtype == torch.float64


def test_it_learns_a_curve() -> None:
    model = mlp([Field("x", "number", 2)], hidden=(16,))
    state, engine = ModelState.start([model], [0, 0]), Stacked(model)
    x = torch.rand(2, 200, 2) * 2 - 1
    batch = Batch((x,), (), x[..., 0] * x[..., 1])
    for _ in range(300):
        learn(state, batch, engine, Online(Adam(rate=0.02)))
    error = (predict(state, batch, engine) - batch.labels).square().mean(1)
    assert (error < 0.1 * batch.labels.var(dim=1)).all()


@given(st.floats(0.01, 1000), st.integers(0, 2**16))
def test_the_label_scale_is_a_factor_of_the_output(label_scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    plain, scaled = MLP(FIELDS, (8,)), MLP(FIELDS, (8,), label_scale=label_scale)
    scaled.load_state_dict(plain.state_dict())
    batch = _inputs(12)
    torch.testing.assert_close(scaled(*batch), plain(*batch) * label_scale)


def test_number_fields_and_no_others_can_be_normalised() -> None:
    module = MLP((*FIELDS, Field("y", "number", 2)), (8,), normalise=True)
    assert sorted(module.norms) == ["0", "3"]
    y = torch.randn(12, 2)
    module(*_inputs(12), y)
    norm = module.norms["3"]
    assert isinstance(norm, RunningNorm)
    torch.testing.assert_close(norm.mean, y.mean(0))
