"""A module's parameters are split, laid flat and put back together without loss; what can't be is refused."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from alphaedge.core.model import LOSSES, IdTable, Model
from alphaedge.errors import AlphaEdgeError, InvalidValue, ModelError

from .zoo import TWO_TABLES, ZOO, Frozen, Tied, TwoTables


def _two_tables(**changes: object) -> Model:
    settings = {"fields": ["user", "target", "basket", "x"], "tables": TWO_TABLES} | changes
    return Model(TwoTables(), **settings)


# -- layout --


def test_every_trainable_parameter_is_in_the_dense_part_or_in_one_table() -> None:
    for kind, case in ZOO.items():
        model = case.model()
        trainable = {n for n, p in model.module.named_parameters() if p.requires_grad}
        dense = [s.name for s in model.dense_layout]
        tables = [c.name for t in model.tables for c in t.slices]
        assert sorted(dense + tables) == sorted(trainable), kind
        assert model.dense_size == sum(model.module.get_parameter(n).numel() for n in dense), kind


def test_tied_weights_are_counted_once() -> None:
    model = Model(Tied(), fields=["x"])
    assert model.dense_size == 25 + 5 + 5 + 5 + 1


def test_frozen_parameters_are_constants_and_not_mixed() -> None:
    model = Model(Frozen(), fields=["x"])
    assert {s.name for s in model.dense_layout} == {"out.weight", "out.bias"}
    assert set(model.initial_buffers()) == {"below.weight", "below.bias"}
    assert model.statistics() == ()


def test_only_floating_point_buffers_are_statistics() -> None:
    model = Model(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)), fields=["x"])
    assert set(model.statistics()) == {"1.running_mean", "1.running_var"}
    assert "1.num_batches_tracked" in model.initial_buffers()


def test_parameters_looked_up_by_one_field_lie_side_by_side_in_a_row() -> None:
    model = _two_tables()
    users, items = model.tables
    assert (users.rows, users.width, users.fields) == (7, 4, (0,))
    assert (items.rows, items.width, items.fields) == (9, 3, (1, 2))
    table = model.initial_table(0)
    module = model.module
    torch.testing.assert_close(table[:, :3], module.user.weight.detach())
    torch.testing.assert_close(table[:, 3:], module.user_bias.weight.detach())


def test_a_table_may_have_more_than_one_number_dimension() -> None:
    class Matrices(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maps = nn.Parameter(torch.randn(6, 2, 3))

        def forward(self, ids: Tensor, x: Tensor) -> Tensor:
            return torch.einsum("bij,bj->b", self.maps[ids], x)

    model = Model(Matrices(), fields=["id", "x"], tables=[IdTable(("id",), ("maps",))])
    assert model.tables[0].width == 6
    assert model.dense_size == 0
    assert model.initial_dense().shape == (0,)
    values = model.unpack(model.initial_dense(), [model.initial_table(0)])
    ids, x = torch.tensor([5, 0, 5]), torch.randn(3, 3)
    torch.testing.assert_close(model.forward(values, {}, [ids, x]), model.module(ids, x))


def test_initial_values_are_copies() -> None:
    model = _two_tables()
    kept = {n: p.detach().clone() for n, p in model.module.named_parameters()}
    model.initial_dense().zero_()
    model.initial_table(0).zero_()
    for name, parameter in model.module.named_parameters():
        assert torch.equal(parameter, kept[name])
    frozen = Model(nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1)), fields=["x"])
    frozen.initial_buffers()["1.running_var"].zero_()
    assert frozen.module[1].running_var.item() == 1


@pytest.mark.parametrize("kind", ZOO)
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_packing_undoes_unpacking(kind: str, leading: tuple[int, ...]) -> None:
    model = ZOO[kind].model()
    dense = torch.randn(*leading, model.dense_size).double()
    rows = [torch.randn(*leading, 5, t.width).double() for t in model.tables]
    packed, packed_rows = model.pack(model.unpack(dense, rows), len(leading))
    assert torch.equal(packed, dense)
    assert all(torch.equal(a, b) for a, b in zip(packed_rows, rows, strict=True))


@pytest.mark.parametrize("kind", ZOO)
def test_a_forward_pass_with_the_initial_values_is_the_modules_own(kind: str) -> None:
    model = ZOO[kind].model()
    inputs = [x[0] for x in ZOO[kind].inputs(1, 4)]
    rows = [model.initial_table(t) for t in range(len(model.tables))]
    found = model.forward(model.unpack(model.initial_dense(), rows), model.initial_buffers(), inputs)
    torch.testing.assert_close(found, model.module(*inputs).reshape(4))


def test_a_forward_pass_gets_only_the_rows_that_its_batch_names() -> None:
    model = _two_tables()
    user, target, basket, x = (
        torch.tensor([4, 4, 2]),
        torch.tensor([8, 0, 8]),
        torch.tensor([[1, 0]] * 3),
        torch.randn(3, 3),
    )
    rows = [model.initial_table(0)[[2, 4]], model.initial_table(1)[[0, 1, 8]]]
    values = model.unpack(model.initial_dense(), rows)
    places = [torch.tensor([1, 1, 0]), torch.tensor([2, 0, 2]), torch.tensor([[1, 0]] * 3), x]
    torch.testing.assert_close(model.forward(values, {}, places), model.module(user, target, basket, x))


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_number_per_example_may_come_flat_or_as_a_column(shape: tuple[int, ...]) -> None:
    class Shaped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).view(shape)

    model = Model(Shaped(3, 1), fields=["x"])
    out = model.forward(model.unpack(model.initial_dense(), []), {}, [torch.zeros(4, 3)])
    assert out.shape == (4,)


def test_a_batch_of_one_example_is_a_batch() -> None:
    model = Model(nn.Linear(3, 1), fields=["x"])
    assert model.forward(model.unpack(model.initial_dense(), []), {}, [torch.zeros(1, 3)]).shape == (1,)


# -- losses --


@given(
    logits=st.lists(st.floats(-120, 120, width=32), min_size=1, max_size=20),
    seed=st.integers(0, 99),
    soft=st.booleans(),
    double=st.booleans(),
)
def test_bce_is_torchs_binary_cross_entropy_with_logits(
    logits: list[float], seed: int, soft: bool, double: bool
) -> None:
    dtype = torch.float64 if double else torch.float32
    x = torch.tensor(logits, dtype=dtype, requires_grad=True)
    y = torch.rand(len(logits), generator=torch.Generator().manual_seed(seed), dtype=dtype)
    y = y if soft else y.round()
    found, expected = LOSSES["bce"].function(x, y), F.binary_cross_entropy_with_logits(x, y)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 if dtype == torch.float32 else 3e-9)
    (slope,), (true_slope,) = torch.autograd.grad(found, x), torch.autograd.grad(expected, x)
    torch.testing.assert_close(slope, true_slope, rtol=1e-6, atol=3e-7 if dtype == torch.float32 else 3e-9)


@pytest.mark.parametrize("size", [100.0, 1e4, 1e30])
def test_bce_of_huge_logits_is_finite_and_right(size: float) -> None:
    x = torch.tensor([size, -size, size, -size], requires_grad=True)
    y = torch.tensor([1.0, 0.0, 0.0, 1.0])
    loss = LOSSES["bce"].function(x, y)
    assert loss.item() == pytest.approx(size / 2)
    (slope,) = torch.autograd.grad(loss, x)
    assert slope.tolist() == pytest.approx([0, 0, 0.25, -0.25])


def test_mse_is_the_mean_squared_error() -> None:
    outputs, labels = torch.randn(7), torch.randn(7)
    expected = np.mean((outputs.numpy() - labels.numpy()) ** 2)
    assert float(LOSSES["mse"].function(outputs, labels)) == pytest.approx(expected, rel=1e-6)


def test_the_links_turn_outputs_into_predictions() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(LOSSES["bce"].link(x).numpy(), 1 / (1 + np.exp(-x.numpy())), rtol=1e-6)
    assert torch.equal(LOSSES["mse"].link(x), x)


# -- refusals --


class _NoParameters(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1)


def _mixed_types() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).double())


REFUSED: dict[str, tuple[Callable[[], object], str, object, str]] = {
    "no fields": (lambda: Model(nn.Linear(2, 1), fields=[]), "fields", [], "at least one field name"),
    "unknown loss": (
        lambda: Model(nn.Linear(2, 1), fields=["x"], loss="hinge"),
        "loss",
        "hinge",
        "one of bce, mse",
    ),
    "no parameters": (
        lambda: Model(_NoParameters(), fields=["x"]),
        "module",
        "_NoParameters",
        "a module with at least one trainable parameter",
    ),
    "two types": (
        lambda: Model(_mixed_types(), fields=["x"]),
        "module",
        ["torch.float32", "torch.float64"],
        "one floating-point type",
    ),
    "table without parameters": (
        lambda: _two_tables(tables=[IdTable(("user",), ())]),
        "tables",
        IdTable(("user",), ()),
        "at least one field and one parameter",
    ),
    "table without fields": (
        lambda: _two_tables(tables=[IdTable((), ("user.weight",))]),
        "tables",
        IdTable((), ("user.weight",)),
        "at least one field and one parameter",
    ),
    "table of an unknown field": (
        lambda: _two_tables(tables=[IdTable(("usr",), ("user.weight",))]),
        "tables[usr].fields",
        "usr",
        "one of user, target, basket, x",
    ),
    "table that is no parameter": (
        lambda: _two_tables(tables=[IdTable(("user",), ("usr.weight",))]),
        "tables[user].parameters",
        "usr.weight",
        "user.weight",
    ),
    "table without rows": (
        lambda: _two_tables(tables=[IdTable(("user",), ("out.bias",))]),
        "tables[user].out.bias",
        (1,),
        "a parameter with rows",
    ),
    "tables of different lengths": (
        lambda: _two_tables(tables=[IdTable(("user",), ("user.weight", "item.weight"))]),
        "tables[user].parameters",
        [7, 9],
        "the same number of rows",
    ),
    "a parameter in two tables": (
        lambda: _two_tables(tables=[IdTable(("user",), ("user.weight",)), IdTable(("target",), ("user.weight",))]),
        "tables",
        ["user.weight", "user.weight"],
        "each parameter in one id table only",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field_what_was_found_and_what_is_allowed(case: str) -> None:
    make, field, found, allowed = REFUSED[case]
    with pytest.raises(InvalidValue) as caught:
        make()
    assert caught.value.field == field
    assert caught.value.found == found
    assert allowed in caught.value.allowed
    assert str(caught.value) == f"{field}: found {found!r}; allowed: {caught.value.allowed}"
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AlphaEdgeError)


def test_a_field_in_two_tables_is_refused_since_its_ids_can_be_renumbered_once_only() -> None:
    tables = [IdTable(("user",), ("user.weight",)), IdTable(("user",), ("user_bias.weight",))]
    with pytest.raises(InvalidValue) as caught:
        _two_tables(tables=tables)
    assert "user" in str(caught.value)


def test_a_frozen_parameter_is_no_id_table() -> None:
    module = TwoTables()
    module.user.weight.requires_grad_(False)
    with pytest.raises(InvalidValue) as caught:
        Model(module, fields=["user", "target", "basket", "x"], tables=[IdTable(("user",), ("user.weight",))])
    assert caught.value.found == "user.weight"


def test_padding_in_an_id_table_is_refused_and_the_way_out_named() -> None:
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.item = nn.Embedding(9, 2, padding_idx=0)

        def forward(self, item: Tensor) -> Tensor:
            return self.item(item).sum(-1)

    with pytest.raises(ModelError, match=r"tables\[item\]\.item\.weight.*padding_idx.*leave"):
        Model(Padded(), fields=["item"], tables=[IdTable(("item",), ("item.weight",))])
    assert Model(Padded(), fields=["item"]).dense_size == 18, "undeclared, it is mixed whole"


class _Says(nn.Module):
    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.w, self.answer = nn.Parameter(torch.zeros(1)), answer

    def forward(self, x: Tensor) -> object:
        return self.answer(x + self.w)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda x: x, (4, 3)),
        (lambda x: x.sum(), ()),
        (lambda x: x.sum(0), (3,)),
        (lambda x: x[:, :1].t(), (1, 4)),
        (lambda x: x[:, :1].unsqueeze(2), (4, 1, 1)),
        (lambda x: (x, x), "tuple"),
        (lambda x: None, "NoneType"),
    ],
)
def test_an_output_that_is_not_one_number_per_example_is_refused(
    answer: Callable[[Tensor], object], found: object
) -> None:
    model = Model(_Says(answer), fields=["x"])
    with pytest.raises(InvalidValue) as caught:
        model.forward(model.unpack(model.initial_dense(), []), {}, [torch.zeros(4, 3)])
    assert caught.value.field == "output of _Says"
    assert caught.value.found == found
    assert caught.value.allowed == "(4,) or (4, 1), one number per example"
