"""The online step is what torch does to a module and its optimizer."""

import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.model import Model
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.rules.optimizer.sgd import SGD
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue, RuleError

from .zoo import ZOO, Case, batch_of, numbers


def _stream(case: Case, edges: int, steps: int, size: int = 5) -> list[tuple[list[Tensor], Tensor]]:
    return [(case.inputs(edges, size), torch.randint(0, 2, (edges, size)).double()) for _ in range(steps)]


def _models(model: Model, edges: int = 3) -> ModelState:
    """Edges with models of their own."""
    models = ModelState.start([model], [0] * edges)
    models.dense += 0.1 * torch.randn_like(models.dense)
    for table in models.tables:
        table.value[:, :-1] += 0.1 * torch.randn_like(table.value[:, :-1])
    return models


def _module_of(models: ModelState, model: Model, edge: int) -> nn.Module:
    """An edge's model as a plain module."""
    module = copy.deepcopy(model.module)
    parameters = dict(module.named_parameters())
    values = model.unpack(models.dense[edge], [t.value[edge, :-1] for t in models.tables])
    names = [s.name for s in model.dense_layout] + [c.name for t in model.tables for c in t.slices]
    for name, value in zip(names, values, strict=True):
        parameters[name].data.copy_(value.reshape(parameters[name].shape))
    return module.train()


def _assert_is(models: ModelState, model: Model, edge: int, module: nn.Module, tolerance: float) -> None:
    found = dict(_module_of(models, model, edge).named_parameters())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(
            found[name], parameter, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("kind", ["mlp", "deepfm", "two tables", "batch norm"])
def test_fifty_steps_with_dense_rows_are_torchs_adam_on_the_plain_module(kind: str) -> None:
    case, model = ZOO[kind], ZOO[kind].model()
    models, engine = _models(model), Stacked(model)
    online = Online(Adam(rate=0.01, lazy_rows=False))
    modules = [_module_of(models, model, e) for e in range(3)]
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in modules]
    for inputs, labels in _stream(case, 3, 50):
        outputs, losses = learn(models, batch_of(inputs, labels, model), engine, online)
        for e, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            optimizer.zero_grad()
            logits = module(*[x[e] for x in inputs]).reshape(-1)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels[e])
            loss.backward()
            optimizer.step()
            torch.testing.assert_close(outputs[e], logits.detach(), rtol=1e-7, atol=1e-8)
            torch.testing.assert_close(losses[e], loss.detach(), rtol=1e-7, atol=1e-8)
    for e, module in enumerate(modules):
        _assert_is(models, model, e, module, 1e-7)
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(models.buffers[name][e], buffer, rtol=1e-8, atol=1e-8)
    assert models.steps.tolist() == [50] * 3


def test_fifty_steps_with_lazy_rows_are_torchs_sparse_adam() -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    models, engine = _models(model), Stacked(model)
    modules = [_module_of(models, model, e) for e in range(3)]
    pairs = []
    for module in modules:
        tables = [module.user.weight, module.user_bias.weight, module.item.weight]
        for embedding in (module.user, module.user_bias, module.item):
            embedding.sparse = True
        pairs.append((torch.optim.SparseAdam(tables, lr=0.01), torch.optim.Adam(module.out.parameters(), lr=0.01)))
    for inputs, labels in _stream(case, 3, 50):
        learn(models, batch_of(inputs, labels, model), engine, Online(Adam(rate=0.01)))
        for e, (module, both) in enumerate(zip(modules, pairs, strict=True)):
            module.zero_grad()
            logits = module(*[x[e] for x in inputs]).reshape(-1)
            nn.functional.binary_cross_entropy_with_logits(logits, labels[e]).backward()
            for optimizer in both:
                optimizer.step()
    for e, module in enumerate(modules):
        # SparseAdam adds eps before it corrects the second moment
        _assert_is(models, model, e, module, 2e-5)


def test_rows_with_an_optimizer_of_their_own_are_torchs_adagrad_beside_adam() -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    models, engine = _models(model), Stacked(model)
    online = Online(Adam(rate=0.01), row_optimizer=Adagrad(0.1, eps=1e-3))
    in_tables = {c.name for t in model.tables for c in t.slices}
    modules = [_module_of(models, model, e) for e in range(3)]
    pairs = []
    for module in modules:
        parameters = dict(module.named_parameters())
        rows = [p for name, p in parameters.items() if name in in_tables]
        rest = [p for name, p in parameters.items() if name not in in_tables]
        pairs.append((torch.optim.Adagrad(rows, lr=0.1, eps=1e-3), torch.optim.Adam(rest, lr=0.01)))
    for inputs, labels in _stream(case, 3, 50):
        learn(models, batch_of(inputs, labels, model), engine, online)
        for e, (module, both) in enumerate(zip(modules, pairs, strict=True)):
            module.zero_grad()
            logits = module(*[x[e] for x in inputs]).reshape(-1)
            nn.functional.binary_cross_entropy_with_logits(logits, labels[e]).backward()
            for optimizer in both:
                optimizer.step()
    for e, module in enumerate(modules):
        _assert_is(models, model, e, module, 1e-7)


@pytest.mark.parametrize("optimizer", [Adam(rate=0.1), Adagrad(0.1), SGD(0.1)])
def test_lazy_rows_move_only_where_the_batch_names_them(optimizer: Optimizer) -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    models, engine = _models(model), Stacked(model, trace=False)
    for inputs, labels in _stream(case, 3, 4, size=2):
        before = [t.value.clone() for t in models.tables], [t.m.clone() for t in models.tables]
        batch = batch_of(inputs, labels, model)
        learn(models, batch, engine, Online(optimizer))
        for t, (table, rows) in enumerate(zip(models.tables, batch.rows, strict=True)):
            for e in range(3):
                named = set(rows[e].tolist()) - {table.scratch}
                moved = (table.value[e] != before[0][t][e]).any(1).nonzero().flatten().tolist()
                assert set(moved) - {table.scratch} == named
                still = [r for r in range(table.scratch) if r not in named]
                assert torch.equal(table.m[e][still], before[1][t][e][still])


def test_dense_rows_keep_moving_after_a_batch_has_named_them() -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    models, engine = _models(model), Stacked(model)
    (inputs, labels), (others, _) = _stream(case, 3, 2, size=1)
    inputs[0][:], others[0][:] = 3, 5
    learn(models, batch_of(inputs, labels, model), engine, Online(Adam(lazy_rows=False)))
    once = models.tables[0].value.clone()
    learn(models, batch_of(others, labels, model), engine, Online(Adam(lazy_rows=False)))
    moved = (models.tables[0].value != once).any(2).any(0).nonzero().flatten().tolist()
    assert moved == [3, 5]


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("kind", ["mlp", "deepfm", "two tables", "batch norm"])
def test_both_engines_learn_alike(kind: str, lazy: bool) -> None:
    case, model = ZOO[kind], ZOO[kind].model()
    one = _models(model)
    other = copy.deepcopy(one)
    for inputs, labels in _stream(case, 3, 4):
        batch = batch_of(inputs, labels, model)
        learn(one, batch, Stacked(model), Online(Adam(rate=0.01, lazy_rows=lazy)))
        learn(other, batch, OneAtATime(model), Online(Adam(rate=0.01, lazy_rows=lazy)))
    torch.testing.assert_close(one.dense, other.dense, rtol=1e-8, atol=1e-9)
    for a, b in zip(one.tables, other.tables, strict=True):
        torch.testing.assert_close(a.value[:, :-1], b.value[:, :-1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("lazy", [True, False])
def test_the_scratch_row_has_no_effect_on_anything(lazy: bool) -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    clean = _models(model)
    dirty = copy.deepcopy(clean)
    engine, online = Stacked(model, trace=False), Online(Adam(rate=0.01, lazy_rows=lazy))
    for inputs, labels in _stream(case, 3, 4):
        batch = batch_of(inputs, labels, model)
        for table in dirty.tables:
            table.value[:, -1] = torch.randn(())
        assert torch.equal(predict(clean, batch, engine), predict(dirty, batch, engine))
        learn(clean, batch, engine, online)
        learn(dirty, batch, engine, online)
    assert torch.equal(clean.dense, dirty.dense)
    for a, b in zip(clean.tables, dirty.tables, strict=True):
        assert torch.equal(a.value[:, :-1], b.value[:, :-1])


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("kind", ["deepfm", "batch norm"])
def test_edges_that_learn_in_parts_and_at_different_ages_are_those_that_learn_alone(kind: str, lazy: bool) -> None:
    case, model = ZOO[kind], ZOO[kind].model()
    together = _models(model, edges=4)
    alone = copy.deepcopy(together)
    engine, online = Stacked(model, trace=False), Online(Adam(rate=0.01, lazy_rows=lazy))
    groups = [[0, 1, 2, 3], [2], [3, 0], [1, 2, 0], [2, 3], [0, 1, 2, 3]]
    for edges, (inputs, labels) in zip(groups, _stream(case, 4, len(groups)), strict=True):
        batch = batch_of(inputs, labels, model)[torch.tensor(edges)]
        part = together.select(torch.tensor(edges))
        learn(part, batch, engine, online)
        together.write(torch.tensor(edges), part)
        for i, e in enumerate(edges):
            single = alone.select(torch.tensor([e]))
            learn(single, batch[torch.tensor([i])], engine, online)
            alone.write(torch.tensor([e]), single)
    assert together.steps.tolist() == [sum(e in g for g in groups) for e in range(4)]
    assert torch.equal(together.steps, alone.steps)
    torch.testing.assert_close(together.dense, alone.dense, rtol=1e-9, atol=1e-8)
    for a, b in zip(together.tables, alone.tables, strict=True):
        torch.testing.assert_close(a.value[:, :-1], b.value[:, :-1], rtol=1e-9, atol=1e-8)
    for name, buffer in together.buffers.items():
        torch.testing.assert_close(buffer, alone.buffers[name], rtol=1e-9, atol=1e-8)


def test_outputs_and_losses_are_from_before_the_step() -> None:
    case, model = ZOO["deepfm"], ZOO["deepfm"].model()
    models, engine = _models(model), Stacked(model)
    ((inputs, labels),) = _stream(case, 3, 1)
    batch = batch_of(inputs, labels, model)
    before = predict(models, batch, engine)
    outputs, losses = learn(models, batch, engine, Online(Adam(rate=0.1), local_steps=3))
    torch.testing.assert_close(outputs, before)
    expected = nn.functional.binary_cross_entropy_with_logits(before, labels, reduction="none").mean(1)
    torch.testing.assert_close(losses, expected)
    after = predict(models, batch, engine)
    assert (nn.functional.binary_cross_entropy_with_logits(after, labels, reduction="none").mean(1) < losses).all()


def test_several_local_steps_are_as_many_single_ones_on_the_batch() -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    one = _models(model)
    other = copy.deepcopy(one)
    ((inputs, labels),) = _stream(case, 3, 1)
    batch = batch_of(inputs, labels, model)
    learn(one, batch, Stacked(model), Online(local_steps=4))
    for _ in range(4):
        learn(other, batch, Stacked(model), Online())
    assert torch.equal(one.dense, other.dense)
    assert one.steps.tolist() == [4] * 3


def test_predicting_changes_nothing() -> None:
    case, model = ZOO["batch norm"], ZOO["batch norm"].model()
    models = _models(model)
    kept = copy.deepcopy(models)
    ((inputs, labels),) = _stream(case, 3, 1)
    predict(models, batch_of(inputs, labels, model), Stacked(model))
    assert torch.equal(models.dense, kept.dense)
    assert all(torch.equal(b, kept.buffers[n]) for n, b in models.buffers.items())
    assert models.steps.sum() == 0


def test_gradient_descent_is_torchs_on_the_plain_module() -> None:
    case, model = ZOO["two tables"], ZOO["two tables"].model()
    models, engine = _models(model), Stacked(model, trace=False)
    modules = [_module_of(models, model, e) for e in range(3)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in modules]
    for inputs, labels in _stream(case, 3, 10):
        learn(models, batch_of(inputs, labels, model), engine, Online(SGD(0.1)))
        for e, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            optimizer.zero_grad()
            logits = module(*[x[e] for x in inputs]).reshape(-1)
            nn.functional.binary_cross_entropy_with_logits(logits, labels[e]).backward()
            optimizer.step()
    for e, module in enumerate(modules):
        _assert_is(models, model, e, module, 1e-9)


def test_a_logistic_model_learns_what_scikit_learn_finds() -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(2, 4))
    x = generator.normal(size=(2, 400, 4))
    chance = 1 / (1 + np.exp(-np.einsum("kbf,kf->kb", x, truth)))
    y = (generator.random((2, 400)) < chance).astype(float)
    model = Case(lambda: nn.Linear(4, 1), numbers(4)).model()
    models, engine = ModelState.start([model], [0, 0]), Stacked(model)
    batch = Batch((torch.from_numpy(x),), (), torch.from_numpy(y))
    for rate in (0.1, 0.01):
        for _ in range(250):
            learn(models, batch, engine, Online(Adam(rate=rate)))
    for e in range(2):
        fitted = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(x[e], y[e])
        expected = np.append(fitted.coef_[0], fitted.intercept_)
        np.testing.assert_allclose(models.dense[e].numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("steps", [0, -1, 1.5, None, True])
def test_a_number_of_local_steps_below_one_is_refused(steps: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        Online(local_steps=steps)
    assert caught.value.field == "local_steps"
    assert caught.value.found is steps
    assert "whole number of at least 1" in caught.value.allowed


def test_the_papers_online_step_is_the_default() -> None:
    assert Online() == Online(Adam(rate=0.001), local_steps=1)


def test_an_optimizer_that_lacks_a_part_is_refused_by_field() -> None:
    with pytest.raises(RuleError, match=r"^optimizer: Adam .*lazy_rows is 'some', not bool"):
        Online(Adam(lazy_rows="some"))
    with pytest.raises(RuleError, match=r"^row_optimizer: object .*lazy_rows is missing"):
        Online(Adam(), row_optimizer=object())
