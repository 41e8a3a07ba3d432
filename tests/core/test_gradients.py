"""Stacked gradients are the plain loop's, traced or not."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alphaedge.core.gradients import Gradients, OneAtATime, Stacked, choose
from alphaedge.core.model import LOSSES, Loss, Model
from alphaedge.core.replays import CALLS_BEFORE_TRACING
from alphaedge.errors import InvalidValue

from .zoo import WRITTEN, ZOO, Case, Padded, Recurrent, Run, Written, numbers, parts, run_of, whole

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")

EVERY_CASE = {**ZOO, **WRITTEN}
RECORDED = [
    *(kind for kind in ZOO if kind not in ("attention", "group norm", "frozen parameters", "embedding by frequency")),
    "adds in place",
    "blanks a column of one of two copies",
    "writes into one of two equal products",
    "adds to a blank tensor",
    "adds to ones through a view",
    "reads a view before and after a write",
    "turns a mask into numbers",
]
MANY_CALLS = CALLS_BEFORE_TRACING + 3


def _assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", EVERY_CASE)
def test_stacked_gradients_are_those_of_the_plain_loop(kind: str, training: bool) -> None:
    model = EVERY_CASE[kind].model()
    run = run_of(EVERY_CASE[kind], model)
    found = Stacked(model, trace=False).gradient(*run, training=training)
    _assert_same(parts(found), parts(OneAtATime(model).gradient(*run, training=training)))


@pytest.mark.parametrize("kind", EVERY_CASE)
def test_stacked_outputs_are_those_of_the_plain_loop(kind: str) -> None:
    model = EVERY_CASE[kind].model()
    run = run_of(EVERY_CASE[kind], model)
    found = Stacked(model, trace=False).outputs(*run.without_labels())
    torch.testing.assert_close(found, OneAtATime(model).outputs(*run.without_labels()), rtol=1e-10, atol=1e-10)


@cache
def _recorded(kind: str) -> tuple[Case, Model, Stacked]:
    """An engine that has seen this kind of module often enough to replay it."""
    case, model = EVERY_CASE[kind], EVERY_CASE[kind].model()
    engine = Stacked(model)
    for _ in range(CALLS_BEFORE_TRACING + 1):
        engine.gradient(*run_of(case, model))
    return case, model, engine


@pytest.mark.parametrize("kind", RECORDED)
def test_a_traced_call_gives_what_an_untraced_one_gives_for_inputs_that_change(kind: str) -> None:
    case, model, traced = _recorded(kind)
    plain = Stacked(model, trace=False)
    for edges in (3, 1, 7):
        run = run_of(case, model, edges=edges)
        _assert_same(parts(traced.gradient(*run)), parts(plain.gradient(*run)))


@pytest.mark.parametrize("kind", ["deepfm", "batch norm", "adds to a blank tensor"])
def test_a_traced_prediction_is_an_untraced_one_for_inputs_that_change(kind: str) -> None:
    case, model = EVERY_CASE[kind], EVERY_CASE[kind].model()
    traced, plain = Stacked(model), Stacked(model, trace=False)
    for edges in (3,) * CALLS_BEFORE_TRACING + (3, 1, 2, 7):
        run = run_of(case, model, edges=edges).without_labels()
        torch.testing.assert_close(traced.outputs(*run), plain.outputs(*run), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", RECORDED)
def test_a_later_call_leaves_earlier_results_alone(kind: str) -> None:
    case, model, engine = _recorded(kind)
    found = parts(engine.gradient(*run_of(case, model)))
    kept = {name: value.clone() for name, value in found.items()}
    engine.gradient(*run_of(case, model))
    _assert_same(found, kept, tolerance=0)


@pytest.mark.parametrize("kind", ["deepfm", "batch norm"])
@pytest.mark.parametrize("engine", [OneAtATime, Stacked, partial(Stacked, trace=False)])
def test_gradients_in_inference_mode_are_the_same(kind: str, engine: Callable[[Model], Gradients]) -> None:
    case, model = EVERY_CASE[kind], EVERY_CASE[kind].model()
    calls = engine(model)
    for _ in range(CALLS_BEFORE_TRACING + 1):
        run = run_of(case, model)
        expected = parts(OneAtATime(model).gradient(*run))
        with torch.inference_mode():
            dense, labels = run.dense.clone(), run.labels.clone()  # tensors that autograd does not take
            found = calls.gradient(dense, run.rows, run.buffers, [x.clone() for x in run.inputs], labels)
        _assert_same(parts(found), expected)


@pytest.mark.parametrize("kind", RECORDED)
def test_a_call_changes_none_of_its_arguments(kind: str) -> None:
    case, model, recorded = _recorded(kind)
    run = run_of(case, model)
    flat = [run.dense, *run.rows, *run.buffers.values(), *run.inputs, run.labels]
    before = [t.clone() for t in flat]
    for engine in (recorded, Stacked(model, trace=False), OneAtATime(model)):
        engine.gradient(*run)
        engine.outputs(*run.without_labels())
        for now, then in zip(flat, before, strict=True):
            torch.testing.assert_close(now, then, rtol=0, atol=0)


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
@pytest.mark.parametrize("kind", ["mlp", "batch norm", "tied weights", "frozen parameters"])
def test_the_users_module_keeps_its_parameters_and_buffers(kind: str, engine: type[OneAtATime] | type[Stacked]) -> None:
    model = ZOO[kind].model()
    before = {n: t.clone() for n, t in model.module.state_dict().items()}
    engine(model).gradient(*run_of(ZOO[kind], model))
    engine(model).outputs(*run_of(ZOO[kind], model).without_labels())
    for name, value in model.module.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert all(p.grad is None for p in model.module.parameters())


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_a_linear_models_gradient_is_the_textbooks(engine: type[OneAtATime] | type[Stacked]) -> None:
    model = Model(nn.Linear(5, 1).double(), fields=["x"], loss="bce")
    run = run_of(Case(lambda: nn.Linear(5, 1), numbers(5)), model, edges=4, size=6)
    found = engine(model).gradient(*run)
    for e in range(4):
        w, b = run.dense[e, :5].numpy(), float(run.dense[e, 5])
        x, y = run.inputs[0][e].numpy(), run.labels[e].numpy()
        logits = x @ w + b
        p = 1 / (1 + np.exp(-logits))
        expected = np.append(x.T @ (p - y), (p - y).sum()) / len(y)
        np.testing.assert_allclose(found.dense[e].numpy(), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.outputs[e].numpy(), logits, rtol=1e-10, atol=1e-12)
        loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        np.testing.assert_allclose(float(found.losses[e]), loss, rtol=1e-10)


def test_an_edges_gradient_does_not_depend_on_the_other_edges() -> None:
    model = ZOO["batch norm"].model()
    run = run_of(ZOO["batch norm"], model)
    expected = Stacked(model).gradient(*run)
    other = Run(run.dense.clone(), run.rows, run.buffers, [run.inputs[0].clone()], run.labels.clone())
    other.dense[1:] += 1
    other.inputs[0][1:] *= -2
    found = Stacked(model).gradient(*other)
    torch.testing.assert_close(found.dense[0], expected.dense[0], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(found.dense[1], expected.dense[1])


def test_the_gradient_of_rows_that_no_example_names_is_zero() -> None:
    model = ZOO["deepfm"].model()
    run = run_of(ZOO["deepfm"], model, size=5)
    run.inputs[0].zero_()  # every example names place 0
    found = Stacked(model).gradient(*run)
    assert found.rows[0][:, 0].abs().sum() > 0
    assert found.rows[0][:, 1:].abs().sum() == 0


def test_a_parameter_that_is_not_used_has_gradient_zero() -> None:
    model = ZOO["unused parameter"].model()
    idle = next(s for s in model.dense_layout if s.name == "idle")
    for engine in (Stacked(model), OneAtATime(model)):
        found = engine.gradient(*run_of(ZOO["unused parameter"], model))
        assert found.dense[:, idle.start : idle.stop].abs().sum() == 0


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_running_statistics_move_in_training_and_stay_in_evaluation(
    engine: type[OneAtATime] | type[Stacked],
) -> None:
    model = ZOO["batch norm"].model()
    run = run_of(ZOO["batch norm"], model)
    moved = engine(model).gradient(*run, training=True).buffers
    still = engine(model).gradient(*run, training=False).buffers
    reference = nn.BatchNorm1d(4).double()
    layer = nn.Linear(5, 4).double()
    for e in range(len(run.dense)):
        layer.weight.data, layer.bias.data = run.dense[e, :20].view(4, 5), run.dense[e, 20:24]
        reference.reset_running_stats()
        reference(layer(run.inputs[0][e]))
        torch.testing.assert_close(moved["1.running_mean"][e], reference.running_mean, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(moved["1.running_var"][e], reference.running_var, rtol=1e-10, atol=1e-12)
        assert int(moved["1.num_batches_tracked"][e]) == 1
    for name, value in still.items():
        torch.testing.assert_close(value, run.buffers[name], rtol=0, atol=0)


class _Reassigns(nn.Module):
    """A running mean that is set, not written into."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return self.out(x - self.mean)


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_a_running_statistic_that_the_module_reassigns_moves_too(
    engine: type[OneAtATime] | type[Stacked],
) -> None:
    case = Case(_Reassigns, numbers(5))
    model = case.model()
    run = run_of(case, model)
    found = engine(model).gradient(*run)
    torch.testing.assert_close(found.buffers["mean"], 0.1 * run.inputs[0].mean(1))


class _Counts(nn.Module):
    """Counts its calls, in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.out(x)


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_predicting_leaves_buffers_alone(engine: type[OneAtATime] | type[Stacked]) -> None:
    case = Case(_Counts, numbers(5))
    model = case.model()
    run = run_of(case, model)
    engine(model).outputs(*run.without_labels())
    assert run.buffers["calls"].abs().sum() == 0


def _dropout_model() -> tuple[Case, Model]:
    """Outputs the mean of 400 numbers of which dropout keeps half, doubled."""

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift, self.drop = nn.Parameter(torch.zeros(1)), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(x).mean(-1) + self.shift

    case = Case(Mean, lambda k, b: [torch.ones(k, b, 400, dtype=torch.float64)])
    return case, case.model()


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_dropout_runs_in_training_and_is_off_in_predictions(engine: type[OneAtATime] | type[Stacked]) -> None:
    case, model = _dropout_model()
    run = run_of(case, model, edges=3, size=5)
    clean = 1 + run.dense.expand(3, 5)
    worker, seen = engine(model), []
    for _ in range(MANY_CALLS):
        seen.append(worker.gradient(*run, training=True).outputs - run.dense)
        torch.testing.assert_close(worker.outputs(*run.without_labels()), clean)
        torch.testing.assert_close(worker.gradient(*run, training=False).outputs, clean)
    means = torch.stack(seen)  # of 400 coin tosses each: mean 1, deviation 0.05
    assert means.unique().numel() > MANY_CALLS * 5, "the masks repeat"
    assert 0.8 < means.min() < 0.97
    assert 1.03 < means.max() < 1.2
    assert all(not torch.equal(a, b) for a, b in pairwise(means)), "two calls had the same mask"
    assert not torch.equal(means[-1, 0], means[-1, 1]), "two edges had the same mask"


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_what_a_call_does_depends_on_its_mode_and_not_on_earlier_calls(
    engine: type[OneAtATime] | type[Stacked],
) -> None:
    case, _ = _dropout_model()
    module = case.module().double()
    module.drop.eval()  # as the user left it
    model = Model(module, fields=["x"])
    run = run_of(case, model)
    worker = engine(model)
    varies = []
    for _ in range(2):
        outputs = worker.gradient(*run, training=True).outputs
        varies.append(not torch.equal(outputs, worker.gradient(*run, training=True).outputs))
        worker.outputs(*run.without_labels())
    assert varies[0] == varies[1]


def test_two_dropouts_of_one_tensor_keep_masks_of_their_own_when_traced() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift, self.a, self.b = nn.Parameter(torch.zeros(1)), nn.Dropout(0.5), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return (self.a(x) - self.b(x)).abs().sum(-1) + self.shift

    case = Case(Twice, lambda k, b: [torch.ones(k, b, 50, dtype=torch.float64)])
    model = case.model()
    engine = Stacked(model)
    run = run_of(case, model)
    for _ in range(MANY_CALLS):
        assert ((engine.gradient(*run).outputs - run.dense) > 10).all()


def test_batches_of_another_size_follow_traced_ones() -> None:
    case, model, engine = _recorded("deepfm")
    loop = OneAtATime(model)
    for edges, size in ((3, 2), (1, 4), (5, 7), (3, 4), (1, 1)):
        run = run_of(case, model, edges=edges, size=size)
        _assert_same(parts(engine.gradient(*run)), parts(loop.gradient(*run)))


def test_inputs_with_other_strides_follow_traced_ones() -> None:
    case = Case(lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 1)), numbers(2, 3))
    model = case.model()
    engine, loop = Stacked(model), OneAtATime(model)
    for _ in range(MANY_CALLS):
        engine.gradient(*run_of(case, model))
    run = run_of(case, model)
    turned = run.inputs[0].transpose(2, 3).contiguous().transpose(2, 3)
    for strided in (turned, run.inputs[0].transpose(0, 1).contiguous().transpose(0, 1)):
        again = run._replace(inputs=[strided])
        _assert_same(parts(engine.gradient(*again)), parts(loop.gradient(*again)))


def test_a_slice_of_a_longer_vector_is_as_good_a_model_as_a_whole_one() -> None:
    model = ZOO["mlp"].model()
    engine, loop = Stacked(model), OneAtATime(model)
    for _ in range(MANY_CALLS):
        run = run_of(ZOO["mlp"], model)
        engine.gradient(*run)
    longer = torch.cat([run.dense, torch.randn(3, 11, dtype=torch.float64)], dim=1)
    run = run._replace(dense=longer[:, : model.dense_size])
    _assert_same(parts(engine.gradient(*run)), parts(loop.gradient(*run)))


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_a_loss_of_ones_own_is_descended(engine: type[OneAtATime] | type[Stacked]) -> None:
    absolute = Loss(lambda outputs, labels: (outputs - labels).abs().mean(), lambda outputs: outputs)
    model = Model(nn.Linear(5, 1).double(), fields=["x"], loss=absolute)
    run = run_of(Case(lambda: nn.Linear(5, 1), numbers(5)), model)
    found = engine(model).gradient(*run)
    signs = torch.sign(found.outputs - run.labels)
    torch.testing.assert_close(found.dense[:, :5], torch.einsum("kb,kbf->kf", signs, run.inputs[0]) / 4)
    torch.testing.assert_close(found.losses, (found.outputs - run.labels).abs().mean(1))


@pytest.mark.parametrize("engine", [OneAtATime, Stacked])
def test_outputs_of_a_wrong_shape_are_refused(engine: type[OneAtATime] | type[Stacked]) -> None:
    model = Model(nn.Linear(5, 2).double(), fields=["x"])
    run = run_of(Case(lambda: nn.Linear(5, 2), numbers(5)), model)
    for call in (lambda: engine(model).gradient(*run), lambda: engine(model).outputs(*run.without_labels())):
        with pytest.raises(InvalidValue) as caught:
            call()
        assert caught.value.field == "output of Linear"
        assert caught.value.found == (4, 2)
        assert "(4,) or (4, 1)" in caught.value.allowed


@pytest.mark.parametrize("kind", EVERY_CASE)
def test_modules_that_vmap_takes_run_stacked(kind: str) -> None:
    model = EVERY_CASE[kind].model()
    engine, reason = choose(model, *run_of(EVERY_CASE[kind], model))
    assert isinstance(engine, Stacked)
    assert reason is None


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) if x.sum() > 0 else self.out(-x)


class _Items(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) * x.max().item()


class _SetsBlanks(nn.Module):
    """Writes into a tensor that vmap does not know belongs to an edge."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        blank = torch.zeros(x.shape, dtype=x.dtype)
        blank[:, 0] = x[:, 0]
        return self.out(blank)


@pytest.mark.parametrize(
    "module",
    [
        _Branches,
        _Items,
        _SetsBlanks,
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 1)),
    ],
    ids=["data-dependent if", "item", "write into a constant", "batch norm without momentum"],
)
def test_a_module_that_vmap_does_not_take_runs_one_at_a_time_and_the_reason_is_given(
    module: type[nn.Module],
) -> None:
    case = Case(module, numbers(5))
    model = case.model()
    run = run_of(case, model)
    engine, reason = choose(model, *run)
    assert isinstance(engine, OneAtATime)
    assert reason is not None
    assert "vmap" in reason
    assert "\n" not in reason
    assert engine.gradient(*run).dense.shape == run.dense.shape


def test_a_recurrent_model_learns_and_predicts_with_the_engine_chosen_for_it() -> None:
    case = Case(lambda: Recurrent(nn.GRU), numbers(2, 3))
    model = case.model()
    engine, _ = choose(model, *run_of(case, model))
    loop = OneAtATime(model)
    for _ in range(CALLS_BEFORE_TRACING + 1):
        run = run_of(case, model)
        _assert_same(parts(engine.gradient(*run)), parts(loop.gradient(*run)))
        torch.testing.assert_close(engine.outputs(*run.without_labels()), loop.outputs(*run.without_labels()))


def test_an_embedding_with_sparse_gradients_is_learned() -> None:
    case = Case(lambda: Padded(sparse=True), whole(10, 3))
    model, plain = case.model(), Case(Padded, whole(10, 3)).model()
    run = run_of(case, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine, _ = choose(model, *run)
        found = engine.gradient(*run)
    _assert_same(parts(found), parts(OneAtATime(plain).gradient(*run)))


def test_choosing_shows_the_modules_own_errors() -> None:
    case = Case(lambda: nn.Linear(7, 1), numbers(5))
    model = case.model()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        choose(model, *run_of(case, model))
    wide = Case(lambda: nn.Linear(5, 2), numbers(5))
    with pytest.raises(InvalidValue):
        choose(wide.model(), *run_of(wide, wide.model()))


def test_a_module_that_cannot_be_traced_still_runs() -> None:
    def way(m: Written, x: Tensor) -> Tensor:
        scale = torch.ones(3).sum().item()  # a constant: vmap takes it, a recording may not
        return m.out(m.layer(x) * scale)

    case = Case(lambda: Written(way), numbers(5))
    model = case.model()
    engine, _ = choose(model, *run_of(case, model))
    for _ in range(MANY_CALLS):
        run = run_of(case, model)
        _assert_same(parts(engine.gradient(*run)), parts(OneAtATime(model).gradient(*run)))


def test_float32_models_stack_to_float32_rounding() -> None:
    for kind in ("mlp", "deepfm"):
        model = ZOO[kind].model(torch.float32)
        run = run_of(ZOO[kind], model, dtype=torch.float32)
        found = parts(Stacked(model).gradient(*run))
        assert all(v.dtype == torch.float32 for v in found.values())
        _assert_same(found, parts(OneAtATime(model).gradient(*run)), tolerance=1e-5)


def test_both_engines_know_all_losses() -> None:
    for loss in LOSSES:
        model = ZOO["mlp"].model(loss=loss)
        run = run_of(ZOO["mlp"], model)
        _assert_same(parts(Stacked(model).gradient(*run)), parts(OneAtATime(model).gradient(*run)))


@pytest.mark.parametrize("kind", ZOO)
def test_losses_of_several_models_on_several_batches_are_those_of_one_after_the_other(kind: str) -> None:
    """Edge by edge, model by model and batch by batch: what nested vmaps share must not change anything."""
    model = ZOO[kind].model()
    run = run_of(ZOO[kind], model)
    models, batches = torch.arange(1.0, 4.0).double(), 2
    dense = run.dense.unsqueeze(1) * models.view(-1, 1)
    told = model.told(run.rows, run.inputs)
    inputs = [torch.stack([x, x.flip(1)], dim=1) for x in told]
    labels = torch.stack([run.labels, run.labels.flip(1)], dim=1)
    rows = [(r.unsqueeze(1) * models.view(-1, 1, 1)).unsqueeze(2).repeat(1, 1, batches, 1, 1) for r in run.rows]
    found = [each.losses(dense, rows, run.buffers, inputs, labels) for each in (Stacked(model), OneAtATime(model))]
    assert found[0].shape == (len(run.dense), 3, batches)
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
    alone = OneAtATime(model).outputs(dense[:, 1], [r[:, 1, 0] for r in rows], run.buffers, run.inputs)
    expected = torch.stack([model.loss.function(o, y) for o, y in zip(alone, run.labels, strict=True)])
    torch.testing.assert_close(found[1][:, 1, 0], expected)


def test_losses_of_a_module_that_does_not_nest_come_from_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ZOO["mlp"].model()
    run = run_of(ZOO["mlp"], model)
    many = run.dense.unsqueeze(1), [], run.buffers, [x.unsqueeze(1) for x in run.inputs], run.labels.unsqueeze(1)
    expected, engine = OneAtATime(model).losses(*many), Stacked(model)

    def refuse(*_: object) -> Tensor:
        raise RuntimeError("not below two vmaps")

    monkeypatch.setattr(engine, "_outputs", refuse)
    torch.testing.assert_close(engine.losses(*many), expected)
