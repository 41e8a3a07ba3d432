"""DeepFM computes its formula, with the rows of every id field in an id table."""

import sys
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.gradients import OneAtATime, Stacked, choose
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.models.deepfm import DeepFM, deepfm

FIELDS = (
    Field("user", "id", 7),
    Field("day", "code", 3),
    Field("tags", "set", 4),
    Field("x", "number", 2),
    Field("item", "id", 9),
    Field("hour", "code", 5),
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
    """Compute the formula of the paper, feature by feature and pair by pair."""
    users, items = (r.detach().numpy() for r in module.ids)
    categories, numbers = module.codes.detach().numpy(), module.numbers.detach().numpy()
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
    outputs = module(*inputs)
    assert outputs.shape == (20,)
    expected = [_by_hand(module, inputs, e) for e in range(20)]
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_only_id_fields_are_id_tables() -> None:
    model = deepfm(FIELDS, dim=3, hidden=(6,))
    assert [t.name for t in model.tables] == ["user", "item"]
    assert [(t.rows, t.width, t.fields) for t in model.tables] == [(7, 4, (0,)), (9, 4, (4,))]
    dense = {s.name for s in model.dense_layout}
    assert {"codes", "sets.0", "numbers", "bias"} <= dense
    assert not {"ids.0", "ids.1"} & dense
    assert model.loss.link(torch.zeros(1)).item() == 0.5, "outputs are logits"


def test_a_category_has_rows_of_its_own_without_tallies() -> None:
    model = deepfm([Field("user", "id", 7), Field("brand", "category", 5)])
    assert [(t.name, t.rows, t.tallied) for t in model.tables] == [("user", 7, True), ("brand", 5, False)]


def test_a_model_without_ids_has_no_tables() -> None:
    assert deepfm(FIELDS[1:4]).tables == ()


@pytest.mark.parametrize("kind", ["id", "code", "set", "number"])
def test_fields_of_a_single_kind_are_enough(kind: str) -> None:
    chosen = [i for i, f in enumerate(FIELDS) if f.kind == kind]
    module = DeepFM([FIELDS[i] for i in chosen], dim=3, hidden=(4,))
    assert module(*(_inputs(6)[i] for i in chosen)).shape == (6,)


def test_it_runs_stacked() -> None:
    model = deepfm(FIELDS, dim=3, hidden=(6,))
    inputs, rows = compact(_inputs(2, 5), model.tables)
    state = ModelState.start([model], [0, 0])
    named = [t.gather(t.flat(r)) for t, r in zip(state.tables, rows, strict=True)]
    labels = torch.randint(0, 2, (2, 5)).float()
    engine, reason = choose(model, state.dense, named, {}, inputs, labels)
    assert reason is None
    assert isinstance(engine, Stacked)
    gradient = engine.gradient(state.dense, named, {}, inputs, labels)
    expected = OneAtATime(model).gradient(state.dense, named, {}, inputs, labels)
    torch.testing.assert_close(gradient.dense, expected.dense, rtol=1e-4, atol=1e-6)


def test_it_works_in_double_precision() -> None:
    module = DeepFM(FIELDS, dim=3, hidden=(6,)).double()
    inputs = [x.double() if x.is_floating_point() else x for x in _inputs(4)]
    assert module(*inputs).dtype == torch.float64


def test_it_learns_who_likes_what() -> None:
    fields = [Field("user", "id", 8), Field("item", "id", 8)]
    model = deepfm(fields, dim=4, hidden=(8,))
    state, engine = ModelState.start([model], [0]), Stacked(model)
    user, item = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    pairs = [user.reshape(1, -1), item.reshape(1, -1)]
    labels = ((pairs[0] + pairs[1]) % 2).float()  # no first-order effect: only pairs matter
    inputs, rows = compact(pairs, model.tables)
    batch = Batch(tuple(inputs), tuple(rows), labels)
    for _ in range(400):
        learn(state, batch, engine, Online(Adam(rate=0.03)))
    assert ((predict(state, batch, engine) > 0) == (labels > 0.5)).all()


def _deepctr(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Import the models and inputs of deepctr-torch, without its request for the newest version."""
    monkeypatch.setitem(sys.modules, "requests", ModuleType("requests"))
    from deepctr_torch import inputs, models

    return models, inputs


def _sequence(members: Tensor, most: int) -> Tensor:
    """Encode sets for deepctr: the positions of members, counted from 1 and padded with 0."""
    rows = [[i + 1 for i, there in enumerate(row) if there] for row in members.tolist()]
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])


def test_the_output_is_that_of_deepctr_with_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are whole here. The dense features of deepctr skip its factorisation machine, while the rows of ours are
    multiplied by their values. The equivalent in deepctr is a sequence that repeats one token x times, summed.
    """
    models, columns = _deepctr(monkeypatch)
    dim, most = 3, 3
    module = DeepFM(FIELDS, dim=dim, hidden=(6, 5), spread=0.7)
    torch.nn.init.normal_(module.bias)
    batch = _inputs(50)
    batch[2][0] = 0  # a set without members
    batch[3] = torch.randint(0, most + 1, (50, 2)).float()
    user, day, tags, x, item, hour = batch
    # In the order of our features, which is that of deepctr: plain ones first, then sequences.
    plain = {"user": user, "item": item, "day": day, "hour": hour}
    rows = {
        "user": module.ids[0],
        "item": module.ids[1],
        "day": module.codes[:3],
        "hour": module.codes[3:],
    }
    nothing = torch.zeros(1, 1 + dim)
    rows["tags"] = torch.cat([nothing, module.sets[0]])
    sequences = {"tags": (_sequence(tags, 4), "mean")}
    for i in range(2):
        rows[f"x{i}"] = torch.cat([nothing, module.numbers[i : i + 1]])
        repeated = (torch.arange(most) < x[:, i : i + 1]).long()
        sequences[f"x{i}"] = (repeated, "sum")
    features = [columns.SparseFeat(name, len(rows[name]), dim) for name in plain]
    features += [
        columns.VarLenSparseFeat(columns.SparseFeat(name, len(rows[name]), dim), values.shape[1], combiner)
        for name, (values, combiner) in sequences.items()
    ]
    # Regression returns the logit, without the sigmoid of classification.
    reference = models.DeepFM(features, features, dnn_hidden_units=(6, 5), task="regression")
    ours = [m for m in module.deep if isinstance(m, torch.nn.Linear)]
    with torch.no_grad():
        for name, values in rows.items():
            reference.linear_model.embedding_dict[name].weight.copy_(values[:, :1])
            reference.embedding_dict[name].weight.copy_(values[:, 1:])
        for theirs, layer in zip(reference.dnn.linears, ours[:-1], strict=True):
            theirs.load_state_dict(layer.state_dict())
        reference.dnn_linear.weight.copy_(ours[-1].weight)
        reference.out.bias.copy_(module.bias + ours[-1].bias)  # its last layer has no bias
        whole = torch.cat([*(v.unsqueeze(1) for v in plain.values()), *(v for v, _ in sequences.values())], 1)
        expected = reference.eval()(whole.float()).squeeze(1)
        outputs = module(*batch)
    assert outputs.std() > 0.5, "the outputs vary"
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)


def test_numbers_can_pass_through_a_running_norm() -> None:
    module = DeepFM(FIELDS, dim=3, hidden=(6,), spread=0.7, normalise=True)
    plain = DeepFM(FIELDS, dim=3, hidden=(6,))
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("norm")})
    first, second = _inputs(40), _inputs(40)
    zeros = [*first]
    zeros[3] = torch.zeros(40, 2)
    torch.testing.assert_close(module(*first), plain(*zeros))
    normal = [*second]
    normal[3] = (second[3] - first[3].mean(0)) / first[3].std(0, correction=0)
    torch.testing.assert_close(module(*second), plain(*normal), rtol=1e-4, atol=1e-4)
    assert DeepFM(FIELDS[:2], normalise=True).norm is None, "without numbers there is nothing to normalise"
