"""DeepFM is its formula, with every id field's rows in an id table."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.fleet import Fleet
from alphaedge.core.gradients import OneAtATime, Stacked, choose
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.optimizer import Adam
from alphaedge.models.deepfm import DeepFM, deepfm

FIELDS = (
    Field("user", "id", 7),
    Field("day", "category", 3),
    Field("tags", "set", 4),
    Field("x", "number", 2),
    Field("item", "id", 9),
    Field("hour", "category", 5),
)


def _inputs(*leading: int) -> list[Tensor]:
    return [
        torch.randint(0, 7, leading),
        torch.randint(0, 3, leading),
        torch.randint(0, 2, (*leading, 4)).float(),
        torch.randn(*leading, 2),
        torch.randint(0, 9, leading),
        torch.randint(0, 5, leading),
    ]


def _by_hand(module: DeepFM, inputs: list[Tensor], example: int) -> float:
    """The formula of the paper, feature by feature and pair by pair."""
    users, items = (r.detach().numpy() for r in module.ids)
    categories, numbers = module.categories.detach().numpy(), module.numbers.detach().numpy()
    sets = module.sets[0].detach().numpy()
    user, day, tags, x, item, hour = (v[example].numpy() for v in inputs)
    features = [users[user], items[item], categories[day], categories[3 + hour]]
    features.append(sets[tags > 0].mean(0) if tags.sum() else np.zeros_like(sets[0]))
    features += [x[0] * numbers[0], x[1] * numbers[1]]
    first = sum(f[0] for f in features)
    second = sum(a[1:] @ b[1:] for a, b in combinations(features, 2))
    deep = np.concatenate([f[1:] for f in features])
    weights = [p.detach().numpy() for p in module.deep.parameters()]
    for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        deep = np.maximum(w @ deep + b, 0)
    return float(module.bias.item() + first + second + (weights[-2] @ deep + weights[-1])[0])


def test_the_output_is_the_papers_formula() -> None:
    module = DeepFM(FIELDS, dim=3, hidden=(6, 5), spread=0.7)
    inputs = _inputs(20)
    inputs[2][0] = 0  # a set without members
    found = module(*inputs)
    assert found.shape == (20,)
    expected = [_by_hand(module, inputs, e) for e in range(20)]
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_every_id_field_is_an_id_table_and_nothing_else_is() -> None:
    model = deepfm(FIELDS, dim=3, hidden=(6,))
    assert [t.name for t in model.tables] == ["user", "item"]
    assert [(t.rows, t.width, t.fields) for t in model.tables] == [(7, 4, (0,)), (9, 4, (4,))]
    dense = {s.name for s in model.dense_layout}
    assert {"categories", "sets.0", "numbers", "bias"} <= dense
    assert not {"ids.0", "ids.1"} & dense
    assert model.loss.link(torch.zeros(1)).item() == 0.5, "outputs are logits"


def test_a_model_without_ids_has_no_tables() -> None:
    assert deepfm(FIELDS[1:4]).tables == ()


@pytest.mark.parametrize("kind", ["id", "category", "set", "number"])
def test_fields_of_one_kind_are_enough(kind: str) -> None:
    chosen = [i for i, f in enumerate(FIELDS) if f.kind == kind]
    module = DeepFM([FIELDS[i] for i in chosen], dim=3, hidden=(4,))
    assert module(*(_inputs(6)[i] for i in chosen)).shape == (6,)


def test_it_runs_stacked() -> None:
    model = deepfm(FIELDS, dim=3, hidden=(6,))
    inputs, rows = compact(_inputs(2, 5), model.tables)
    fleet = Fleet.start([model], [0, 0])
    named = [t.gather(t.value, t.flat(r)) for t, r in zip(fleet.tables, rows, strict=True)]
    labels = torch.randint(0, 2, (2, 5)).float()
    engine, reason = choose(model, fleet.dense, named, {}, inputs, labels)
    assert reason is None
    assert isinstance(engine, Stacked)
    found = engine.gradient(fleet.dense, named, {}, inputs, labels)
    expected = OneAtATime(model).gradient(fleet.dense, named, {}, inputs, labels)
    torch.testing.assert_close(found.dense, expected.dense, rtol=1e-4, atol=1e-6)


def test_it_works_in_double_precision() -> None:
    module = DeepFM(FIELDS, dim=3, hidden=(6,)).double()
    inputs = [x.double() if x.is_floating_point() else x for x in _inputs(4)]
    assert module(*inputs).dtype == torch.float64


def test_it_learns_who_likes_what() -> None:
    fields = [Field("user", "id", 8), Field("item", "id", 8)]
    model = deepfm(fields, dim=4, hidden=(8,))
    fleet, engine = Fleet.start([model], [0]), Stacked(model)
    user, item = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    pairs = [user.reshape(1, -1), item.reshape(1, -1)]
    labels = ((pairs[0] + pairs[1]) % 2).float()  # no first-order effect: only pairs tell
    inputs, rows = compact(pairs, model.tables)
    batch = Batch(tuple(inputs), tuple(rows), labels)
    for _ in range(400):
        learn(fleet, batch, engine, Online(Adam(rate=0.03)))
    assert ((predict(fleet, batch, engine) > 0) == (labels > 0.5)).all()
