"""Modules of many kinds, and what it takes to run them: shared by the tests of the core."""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.gradients import Gradient
from alphaedge.core.model import IdTable, Model
from alphaedge.models.deepfm import DeepFM
from alphaedge.models.mlp import MLP

Inputs = Callable[[int, int], list[Tensor]]


class Case(NamedTuple):
    """A kind of module, its inputs for k edges and batches of B, and its id tables."""

    module: Callable[[], nn.Module]
    inputs: Inputs
    fields: tuple[str, ...] = ("x",)
    tables: tuple[IdTable, ...] = ()

    def model(self, dtype: torch.dtype = torch.float64, loss: str = "bce") -> Model:
        return Model(self.module().to(dtype), fields=self.fields, tables=self.tables, loss=loss)


class Run(NamedTuple):
    """The arguments of ``Gradients.gradient``."""

    dense: Tensor
    rows: list[Tensor]
    buffers: dict[str, Tensor]
    inputs: list[Tensor]
    labels: Tensor

    def without_labels(self) -> tuple[Tensor, list[Tensor], dict[str, Tensor], list[Tensor]]:
        return self.dense, self.rows, self.buffers, self.inputs


def numbers(*shape: int) -> Inputs:
    return lambda k, b: [torch.randn(k, b, *shape, dtype=torch.float64)]


def whole(high: int, *shape: int) -> Inputs:
    return lambda k, b: [torch.randint(0, high, (k, b, *shape))]


def run_of(case: Case, model: Model, edges: int = 3, size: int = 4, dtype: torch.dtype = torch.float64) -> Run:
    """k different models on k random batches."""
    raw = [x.to(dtype) if x.is_floating_point() else x for x in case.inputs(edges, size)]
    inputs, named = compact(raw, model.tables)
    start = model.initial_dense()
    dense = start + 0.1 * torch.randn(edges, model.dense_size, dtype=dtype)
    rows = [
        torch.randn(edges, r.shape[1], t.width, dtype=dtype) * 0.3 for t, r in zip(model.tables, named, strict=True)
    ]
    buffers = {n: torch.stack([b] * edges) for n, b in model.initial_buffers().items()}
    return Run(dense, rows, buffers, inputs, torch.randint(0, 2, (edges, size)).to(dtype))


def parts(found: Gradient) -> dict[str, Tensor]:
    """All tensors of a gradient by name."""
    rows = {f"rows {t}": r for t, r in enumerate(found.rows)}
    return {"dense": found.dense, "outputs": found.outputs, "losses": found.losses} | rows | dict(found.buffers)


def batch_of(inputs: Sequence[Tensor], labels: Tensor, model: Model) -> Batch:
    """Raw inputs [k, B, ...], with ids, as a batch of the core."""
    renumbered, rows = compact(inputs, model.tables)
    return Batch(tuple(renumbered), tuple(rows), labels)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mix(x, x, x, need_weights=False)[0].mean(1))


class ByHandAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        strength = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2) / 2, dim=-1)
        return self.out((strength @ self.value(x)).mean(-2))


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 1)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Scalars(nn.Module):
    """Parameters and buffers of shape ()."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(-0.5))
        self.out = nn.Linear(5, 1)
        self.register_buffer("gain", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.gain * self.out(x) + self.shift


class Frozen(nn.Module):
    """A layer that is not trained below one that is."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.out = nn.Linear(5, 4), nn.Linear(4, 1)
        for parameter in self.below.parameters():
            parameter.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.below(x)))


class Unused(nn.Module):
    """A parameter that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.out, self.idle = nn.Linear(5, 1), nn.Parameter(torch.ones(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x)


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.memory, self.out = kind(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.memory(x)[0][:, -1])


class Padded(nn.Module):
    """A category embedding with options that change its gradient."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.rows, self.out = nn.Embedding(10, 4, **options), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.rows(x)).mean(-2))


class TwoTables(nn.Module):
    """Users with a vector and a bias, and a basket [B, L] and a target that share the items' table."""

    def __init__(self, users: int = 7, items: int = 9, dim: int = 3) -> None:
        super().__init__()
        self.user, self.user_bias, self.item = (
            nn.Embedding(users, dim),
            nn.Embedding(users, 1),
            nn.Embedding(items, dim),
        )
        self.out = nn.Linear(dim, 1)

    def forward(self, user: Tensor, target: Tensor, basket: Tensor, x: Tensor) -> Tensor:
        taste = self.user(user) + torch.tanh(self.item(basket)).mean(-2) + x
        match = (taste * self.item(target)).sum(-1)
        return match + self.user_bias(user).squeeze(-1) + self.out(torch.tanh(taste)).squeeze(-1)


TWO_TABLES = (
    IdTable(("user",), ("user.weight", "user_bias.weight")),
    IdTable(("target", "basket"), ("item.weight",)),
)


def _two_tables_inputs(k: int, b: int) -> list[Tensor]:
    ids = [torch.randint(0, 7, (k, b)), torch.randint(0, 9, (k, b)), torch.randint(0, 9, (k, b, 2))]
    return [*ids, torch.randn(k, b, 3, dtype=torch.float64)]


DEEPFM_FIELDS = (
    Field("user", "id", 7),
    Field("item", "id", 9),
    Field("day", "code", 3),
    Field("tags", "set", 4),
    Field("x", "number", 2),
)


def deepfm_inputs(k: int, b: int) -> list[Tensor]:
    ids = [torch.randint(0, f.size, (k, b)) for f in DEEPFM_FIELDS[:3]]
    return [*ids, torch.randint(0, 2, (k, b, 4)).double(), torch.randn(k, b, 2, dtype=torch.float64)]


def _sequence(*modules: nn.Module) -> Callable[[], nn.Module]:
    return lambda: copy.deepcopy(nn.Sequential(*modules))


ZOO: dict[str, Case] = {
    "mlp": Case(lambda: MLP([Field("x", "number", 5)], (6, 4)), numbers(5)),
    "deepfm": Case(
        lambda: DeepFM(DEEPFM_FIELDS, dim=3, hidden=(6,), spread=0.3),
        deepfm_inputs,
        tuple(f.name for f in DEEPFM_FIELDS),
        (IdTable(("user",), ("ids.0",)), IdTable(("item",), ("ids.1",))),
    ),
    "two tables": Case(TwoTables, _two_tables_inputs, ("user", "target", "basket", "x"), TWO_TABLES),
    "batch norm": Case(_sequence(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)), numbers(5)),
    "layer norm": Case(_sequence(nn.Linear(5, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1)), numbers(5)),
    "group norm": Case(_sequence(nn.Linear(5, 4), nn.GroupNorm(2, 4), nn.Linear(4, 1)), numbers(5)),
    "attention": Case(Attention, numbers(6, 4)),
    "attention by hand": Case(ByHandAttention, numbers(6, 4)),
    "tied weights": Case(Tied, numbers(5)),
    "convolution": Case(
        _sequence(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(9, 1)),
        numbers(2, 6),
    ),
    "scalar parameters": Case(Scalars, numbers(5)),
    "frozen parameters": Case(Frozen, numbers(5)),
    "unused parameter": Case(Unused, numbers(5)),
    "padded embedding": Case(lambda: Padded(padding_idx=0), whole(10, 3)),
    "embedding by frequency": Case(lambda: Padded(scale_grad_by_freq=True), whole(10, 3)),
}


class Written(nn.Module):
    """Two layers, called by a function that may write into tensors on the way."""

    def __init__(self, way: "Callable[[Written, Tensor], Tensor]") -> None:
        super().__init__()
        self.way = way
        self.layer, self.out = nn.Linear(5, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def _adds_in_place(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    h += 1
    return m.out(F.relu_(h))


def _blanks_a_column_of_one_of_two_copies(m: Written, x: Tensor) -> Tensor:
    blanked = x.clone()
    blanked[:, 0] = 0
    untouched = x.clone()
    return m.out(torch.tanh(m.layer(blanked)) + m.layer(untouched))


def _writes_into_one_of_two_equal_products(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    a, b = h * 2, h * 2
    a[:, 0] += 1
    return m.out(a * a + b)


def _fills_a_blank_tensor(m: Written, x: Tensor) -> Tensor:
    blank = torch.zeros_like(x)
    blank[:, 1:] = x[:, :-1]
    return m.out(m.layer(blank))


def _adds_to_a_blank_tensor(m: Written, x: Tensor) -> Tensor:
    blank = torch.zeros_like(x)
    blank[:, 0] += x[:, 0]
    return m.out(m.layer(blank))


def _adds_to_ones_through_a_view(m: Written, x: Tensor) -> Tensor:
    ones = torch.ones_like(x)
    ones.view(-1)[2:].add_(3)
    return m.out(m.layer(x * ones))


def _reads_a_view_before_and_after_a_write(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    first = h[:, 0]
    before = first * 3
    h.mul_(2)
    after = first * 3
    return m.out(h).squeeze(1) + before * 0.1 - after


def _writes_into_a_product_with_one(m: Written, x: Tensor) -> Tensor:
    y = x * 1.0
    y[:, 0] = 7.0
    return m.out(m.layer(x) + torch.tanh(m.layer(y)))


def _turns_a_mask_into_numbers(m: Written, x: Tensor) -> Tensor:
    mask = (x > 0) * 1.0
    return m.out(m.layer(x * (1 - mask)))


def _averages_over_a_mask_of_whole_numbers(m: Written, x: Tensor) -> Tensor:
    count = (x > 0).sum(1, keepdim=True) * 1.0
    return m.out(m.layer(x)) / torch.sqrt(1 + count)


def _makes_positions(m: Written, x: Tensor) -> Tensor:
    return m.out(m.layer(x * torch.arange(5, dtype=x.dtype).flip(0)))


def _looks_up_places(m: Written, x: Tensor) -> Tensor:
    order = torch.arange(4).flip(0)
    return m.out(m.layer(x)[:, order].sort(1).values)


WRITTEN: dict[str, Case] = {
    way.__name__.strip("_").replace("_", " "): Case(lambda way=way: Written(way), numbers(5))
    for way in (
        _adds_in_place,
        _blanks_a_column_of_one_of_two_copies,
        _writes_into_one_of_two_equal_products,
        _fills_a_blank_tensor,
        _adds_to_a_blank_tensor,
        _adds_to_ones_through_a_view,
        _reads_a_view_before_and_after_a_write,
        _writes_into_a_product_with_one,
        _turns_a_mask_into_numbers,
        _averages_over_a_mask_of_whole_numbers,
        _makes_positions,
        _looks_up_places,
    )
}
WRITTEN["relu in place"] = Case(_sequence(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)), numbers(5))
