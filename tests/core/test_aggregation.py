"""Mixing: learned weights follow the true gradient, and nobody has a say who should have none."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from alphaedge.core.aggregation import (
    Alone,
    ByRecords,
    HeldModels,
    Learned,
    Objective,
    Uniform,
    Weights,
    aggregate,
    learn_weights,
    mixture,
    pulled,
    shares,
    weight_gradient,
)
from alphaedge.core.batch import Batch
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.model import Model
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue

from .zoo import ZOO, Case, batch_of, numbers

KINDS = ["mlp", "deepfm", "two tables"]


class World(NamedTuple):
    """g edges about to aggregate, what they fetched, and the batch they learn on (raw and as the core has it)."""

    model: Model
    fleet: ModelState
    fetched: HeldModels
    inputs: list[Tensor]
    batch: Batch
    known: list[Tensor]

    def aggregate(
        self, weights: Weights, rule: object, wanted: list[Tensor] | tuple[()] = ()
    ) -> tuple[ModelState, Weights]:
        """The fleet and the weights afterwards; the world stays as it is."""
        fleet = copy.deepcopy(self.fleet)
        engine = Stacked(self.model, trace=False)
        return fleet, aggregate(fleet, self.fetched, weights, rule, [self.batch], engine, self.known, wanted)

    def weights(self, value: float = 1.0) -> Weights:
        edges, peers = self.fetched.index.shape
        return Weights.fixed(torch.full((edges, 1 + peers), value, dtype=self.model.dtype))


def world(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0, edges: int = 3, peers: int = 4) -> World:
    torch.manual_seed(seed)
    case, model = ZOO[kind], ZOO[kind].model(dtype)
    fleet, pool = (ModelState.start([model], [0] * n) for n in (edges, peers + 2))
    has = []
    for each in (fleet, pool):
        each.dense += 0.3 * torch.randn_like(each.dense)
        for table in each.tables:
            table.value[:, :-1] += 0.3 * torch.randn_like(table.value[:, :-1])
    for table in pool.tables:
        has.append(torch.rand(table.value.shape[:2]) < 0.6)
        has[-1][:, -1] = False
        table.value[~has[-1]] = 0
    index = torch.stack([torch.randperm(peers + 2)[:peers] for _ in range(edges)])
    present = torch.rand(edges, peers) < 0.7
    present[:, 0] = True
    fetched = HeldModels(pool.dense, tuple(t.value for t in pool.tables), tuple(has), {}, index, present)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in case.inputs(edges, 6)]
    labels = torch.randint(0, 2, (edges, 6)).to(dtype)
    known = [torch.rand(edges, t.value.shape[1]) < 0.7 for t in fleet.tables]
    batch = batch_of(inputs, labels, model)
    for mask, rows in zip(known, batch.rows, strict=True):
        mask[torch.arange(edges)[:, None], rows] = True
        mask[:, -1] = False
    return World(model, fleet, fetched, inputs, batch, known)


def materialised_loss(w: World, edge: int, a: Tensor) -> Tensor:
    """The loss of the mixture written out: every parameter of every model, by plain autograd."""
    there = w.fetched.present[edge].nonzero().flatten().tolist()
    shares_ = torch.cat([a[:1], a[1:][there]])
    shares_ = shares_ / shares_.sum()
    models = [int(w.fetched.index[edge, p]) for p in there]
    dense = shares_[0] * w.fleet.dense[edge]
    for share, j in zip(shares_[1:], models, strict=True):
        dense = dense + share * w.fetched.dense[j]
    tables = []
    for t, table in enumerate(w.fleet.tables):
        mixed = shares_[0] * table.value[edge]
        for share, j in zip(shares_[1:], models, strict=True):
            theirs = torch.where(w.fetched.has[t][j][:, None], w.fetched.tables[t][j], table.value[edge])
            mixed = mixed + share * theirs
        tables.append(mixed[:-1])
    values = w.model.unpack(dense, tables)
    names = [s.name for s in w.model.dense_layout] + [c.name for t in w.model.tables for c in t.columns]
    w.model.module.eval()
    logits = functional_call(w.model.module, dict(zip(names, values, strict=True)), tuple(x[edge] for x in w.inputs))
    return nn.functional.binary_cross_entropy_with_logits(logits.reshape(-1), w.batch.labels[edge])


# -- the gradient of the weights --


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_gradient_is_autograds_over_the_materialised_mixture(
    kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    for seed in range(3):
        w = world(kind, dtype, seed)
        weights = Weights.fixed(torch.rand(3, 5).to(dtype) + 0.2)
        _, after = w.aggregate(weights, Learned(steps=1, rate=0.05))
        found = after.m / 0.1  # after one step from zero, m is (1 - beta1) times the gradient
        for edge in range(3):
            a = weights.raw[edge].clone().requires_grad_()
            (expected,) = torch.autograd.grad(materialised_loss(w, edge, a), a)
            torch.testing.assert_close(found[edge], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_learned_weights_are_torchs_adam_on_the_materialised_mixture_clamped_at_zero(kind: str) -> None:
    w = world(kind, seed=5)
    weights = Weights.fixed(torch.rand(3, 5).double())
    _, after = w.aggregate(weights, Learned(steps=10, rate=0.1))
    assert (after.raw == 0).any(), "no weight met the clamp: the test shows too little"
    for edge in range(3):
        a = weights.raw[edge].clone().requires_grad_()
        adam = torch.optim.Adam([a], lr=0.1)
        for _ in range(10):
            adam.zero_grad()
            materialised_loss(w, edge, a).backward()
            adam.step()
            a.data.clamp_(min=0)
        torch.testing.assert_close(after.raw[edge], a.detach(), rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(after.m[edge], adam.state[a]["exp_avg"], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(after.v[edge], adam.state[a]["exp_avg_sq"], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_goes_on_where_the_last_aggregation_left_the_weights(kind: str) -> None:
    w = world(kind, seed=2)
    _, at_once = w.aggregate(w.weights(), Learned(steps=9, rate=0.02))
    weights = w.weights()
    for steps in (2, 3, 4):
        _, weights = w.aggregate(weights, Learned(steps=steps, rate=0.02))
    for a, b in zip(
        (at_once.raw, at_once.m, at_once.v, at_once.steps),
        (weights.raw, weights.m, weights.v, weights.steps),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert at_once.steps[:, 0].tolist() == [9] * 3


def test_both_engines_learn_the_same_weights() -> None:
    w = world("two tables")
    found = []
    for engine in (Stacked(w.model), OneAtATime(w.model)):
        fleet = copy.deepcopy(w.fleet)
        for _ in range(3):
            learned = aggregate(fleet, w.fetched, w.weights(), Learned(), [w.batch], engine, w.known)
        found.append((learned.raw, fleet.dense))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("steps", [2, 7])
def test_each_step_takes_the_next_of_the_gathered_batches(steps: int) -> None:
    w = world("two tables", seed=3)
    worlds = [w]
    for _ in range(2):
        inputs, labels = ZOO["two tables"].inputs(3, 6), torch.randint(0, 2, (3, 6)).double()
        worlds.append(w._replace(inputs=inputs, batch=batch_of(inputs, labels, w.model)))
    batches = [each.batch for each in worlds]
    engine, rule = Stacked(w.model, trace=False), Learned(steps=steps, rate=0.05)
    fleet = copy.deepcopy(w.fleet)
    after = aggregate(fleet, w.fetched, w.weights(), rule, batches, engine, w.known)
    for edge in range(3):
        a = torch.ones(5).double().requires_grad_()
        adam = torch.optim.Adam([a], lr=0.05)
        for step in range(steps):
            adam.zero_grad()
            materialised_loss(worlds[step % 3], edge, a).backward()
            adam.step()
            a.data.clamp_(min=0)
        torch.testing.assert_close(after.raw[edge], a.detach(), rtol=1e-8, atol=1e-9)


# -- a loss that can be checked by hand: the squared distance to a target --


class Toy(NamedTuple):
    """Own models [g, F], differences [g, P, F], who is there, raw weights, and targets [g, F]."""

    own: Tensor
    differences: Tensor
    present: Tensor
    raw: Tensor
    target: Tensor

    def slope(self, parts: list[Tensor]) -> list[Tensor]:
        return [part - goal for part, goal in zip(parts, self.target.split([2, 3], dim=1), strict=True)]

    def learn(self, weights: Weights, rule: Learned) -> Weights:
        differences = self.differences.masked_fill(~self.present.unsqueeze(2), 0).split([2, 3], dim=2)
        objective = Objective(self.own.split([2, 3], dim=1), differences, self.slope)
        return learn_weights(weights, self.present, [objective], rule)

    def loss(self, weights: Weights) -> Tensor:
        mixed = mixture(shares(weights.raw, self.present), self.own, self.differences)
        return ((mixed - self.target) ** 2).sum(1) / 2


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    edges, peers, seed = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(0, 10_000))
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64)

    present = torch.rand(edges, peers, generator=g) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    raw = torch.rand(edges, 1 + peers, generator=g, dtype=torch.float64)
    raw = torch.where(torch.rand(edges, 1 + peers, generator=g) < 0.2, torch.zeros_like(raw), raw)
    return Toy(normal(edges, 5), normal(edges, peers, 5), present, raw, normal(edges, 5))


@given(toys())
def test_the_weights_gradient_is_the_one_of_finite_differences(toy: Toy) -> None:
    raw = toy.raw + 0.1
    w = shares(raw, toy.present)
    mixed = mixture(w, toy.own, toy.differences)
    masked = toy.differences.masked_fill(~toy.present.unsqueeze(2), 0)
    found = weight_gradient(raw, toy.present, [masked], [mixed - toy.target])
    for j in range(raw.shape[1]):
        step = torch.zeros_like(raw)
        step[:, j] = 1e-6
        up, down = toy.loss(Weights.fixed(raw + step)), toy.loss(Weights.fixed(raw - step))
        torch.testing.assert_close(found[:, j], (up - down) / 2e-6, rtol=1e-5, atol=1e-6)


@given(toys(), st.integers(1, 30))
def test_weights_never_fall_below_zero(toy: Toy, steps: int) -> None:
    after = toy.learn(Weights.fixed(toy.raw), Learned(steps=steps, rate=0.3))
    assert (after.raw >= 0).all()
    assert after.raw.isfinite().all()


@given(toys())
def test_a_silent_peer_keeps_its_weight_and_its_adam_state(toy: Toy) -> None:
    state = [torch.rand_like(toy.raw), torch.rand_like(toy.raw), torch.full_like(toy.raw, 3)]
    before = Weights(toy.raw, *state)
    after = toy.learn(before, Learned(rate=0.2))
    silent = torch.cat([torch.zeros_like(toy.present[:, :1]), ~toy.present], dim=1)
    for now, then in ((after.raw, toy.raw), (after.m, state[0]), (after.v, state[1]), (after.steps, state[2])):
        assert torch.equal(now[silent], then[silent])
        assert now.shape == then.shape
    assert (after.steps[~silent] == 13).all()


@given(toys(), st.randoms(use_true_random=False))
def test_permuting_the_peers_permutes_the_learned_weights(toy: Toy, rng: object) -> None:
    order = list(range(toy.present.shape[1]))
    rng.shuffle(order)
    columns = [0] + [1 + p for p in order]
    turned = toy._replace(differences=toy.differences[:, order], present=toy.present[:, order], raw=toy.raw[:, columns])
    rule = Learned(rate=0.1)
    one, other = toy.learn(Weights.fixed(toy.raw), rule), turned.learn(Weights.fixed(turned.raw), rule)
    torch.testing.assert_close(one.raw[:, columns], other.raw, rtol=1e-7, atol=1e-9)


@given(toys())
def test_learning_changes_none_of_its_arguments(toy: Toy) -> None:
    weights = Weights(toy.raw.clone(), *(torch.rand_like(toy.raw) for _ in range(3)))
    kept = copy.deepcopy(weights)
    toy.learn(weights, Learned(rate=0.2))
    for name in ("raw", "m", "v", "steps"):
        assert torch.equal(getattr(weights, name), getattr(kept, name))


@given(toys())
def test_a_few_small_steps_do_not_raise_the_loss(toy: Toy) -> None:
    start = Weights.fixed(toy.raw + 0.5)
    after = toy.learn(start, Learned(steps=5, rate=1e-4))
    assert (toy.loss(after) <= toy.loss(start) + 1e-9).all()


def test_a_peer_that_is_right_gains_weight_and_one_that_is_wrong_loses_all_of_it() -> None:
    own, target = torch.zeros(1, 5).double(), torch.ones(1, 5).double()
    differences = torch.stack([target - own, -3 * target], dim=1)
    toy = Toy(own, differences, torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3).double(), target)
    after = toy.learn(Weights.fixed(toy.raw), Learned(steps=60, rate=0.05))
    assert after.raw[0, 1] > after.raw[0, 0]
    assert after.raw[0, 2] == 0


# -- shares --


_raw = st.lists(st.lists(st.floats(0, 1e6, width=32), min_size=4, max_size=4), min_size=1, max_size=4)
_there = st.lists(st.booleans(), min_size=3, max_size=3)


@given(_raw, _there)
def test_shares_are_not_negative_and_sum_to_one(raw: list[list[float]], there: list[bool]) -> None:
    present = torch.tensor([there] * len(raw))
    found = shares(torch.tensor(raw), present)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(len(raw)))
    assert (found[:, 1:][~present] == 0).all()


@given(_raw, _there)
def test_shares_are_the_weights_of_those_present_over_their_sum(raw: list[list[float]], there: list[bool]) -> None:
    weights = np.array(raw, dtype=np.float64) * np.array([True, *there])
    assume((weights.sum(1) > 1e-3).all())
    found = shares(torch.tensor(raw, dtype=torch.float64), torch.tensor([there] * len(raw)))
    np.testing.assert_allclose(found.numpy(), weights / weights.sum(1, keepdims=True), rtol=1e-12)


@given(_there, st.sampled_from([0.0, 1e-9]))
def test_weights_that_have_vanished_leave_the_own_model(there: list[bool], value: float) -> None:
    found = shares(torch.full((2, 4), value), torch.tensor([there] * 2))
    assert found.tolist() == [[1, 0, 0, 0]] * 2


def test_only_the_ratio_of_weights_matters() -> None:
    raw, present = torch.rand(3, 5).double(), torch.rand(3, 4) < 0.6
    torch.testing.assert_close(shares(raw, present), shares(1000 * raw, present))


# -- the mix --


def _numpy_mix(w: World, raw: np.ndarray, wanted: list[Tensor] | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
    """Dense parts and tables after the mix, entry by entry."""
    present, index = w.fetched.present.numpy(), w.fetched.index.numpy()
    dense = w.fleet.dense.numpy().copy()
    tables = [t.value.numpy().copy() for t in w.fleet.tables]
    for e in range(len(dense)):
        there = [p for p in range(index.shape[1]) if present[e, p]]
        total = raw[e, 0] + sum(raw[e, 1 + p] for p in there)
        share = {p: raw[e, 1 + p] / total for p in there}
        dense[e] = raw[e, 0] / total * w.fleet.dense.numpy()[e]
        for p in there:
            dense[e] += share[p] * w.fetched.dense.numpy()[index[e, p]]
        for t, table in enumerate(tables):
            for row in range(table.shape[1]):
                own = w.fleet.tables[t].value.numpy()[e, row]
                experts = [p for p in there if w.fetched.has[t][index[e, p], row]]
                theirs = {p: w.fetched.tables[t].numpy()[index[e, p], row] for p in experts}
                if w.known[t][e, row]:
                    known = sum(share[p] for p in experts)
                    table[e, row] = (1 - known) * own + sum(share[p] * theirs[p] for p in experts)
                elif wanted and wanted[t][e, row] and sum(share[p] for p in experts) > 0:
                    known = sum(share[p] for p in experts)
                    table[e, row] = sum(share[p] / known * theirs[p] for p in experts)
    return dense, tables


def _assert_mixed(fleet: ModelState, expected: tuple[np.ndarray, list[np.ndarray]]) -> None:
    np.testing.assert_allclose(fleet.dense.numpy(), expected[0], rtol=1e-10, atol=1e-12)
    for table, value in zip(fleet.tables, expected[1], strict=True):
        np.testing.assert_allclose(table.value.numpy(), value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", [ByRecords(), Uniform(), Learned(rate=0.05)])
def test_the_mix_is_the_one_that_numpy_computes(kind: str, rule: ByRecords | Uniform | Learned) -> None:
    for seed in range(3):
        w = world(kind, seed=seed)
        raw = torch.randint(1, 900, (3, 5)).double() if isinstance(rule, ByRecords) else torch.ones(3, 5).double()
        wanted = [torch.rand(k.shape) < 0.5 for k in w.known]
        fleet, after = w.aggregate(Weights.fixed(raw), rule, wanted)
        _assert_mixed(fleet, _numpy_mix(w, after.raw.numpy(), wanted))
        if not isinstance(rule, Learned):
            assert torch.equal(after.raw, raw), "weights that are not learned do not move"


def test_a_row_that_a_peer_has_never_trained_keeps_the_own_value() -> None:
    w = world("deepfm", peers=1)
    w.fetched.present[:] = True
    fleet, _ = w.aggregate(w.weights(), Uniform())
    for t, table in enumerate(fleet.tables):
        before = w.fleet.tables[t].value
        untrained = ~w.fetched.has[t][w.fetched.index[:, 0]]
        assert torch.equal(table.value[untrained], before[untrained])
        shared = ~untrained & w.known[t]
        assert shared.any()
        assert (table.value[shared] != before[shared]).any(1).all()


def test_rows_that_are_neither_known_nor_wanted_do_not_move() -> None:
    w = world("two tables")
    wanted = [torch.rand(k.shape) < 0.3 for k in w.known]
    fleet, _ = w.aggregate(w.weights(), Learned(), wanted)
    for t, table in enumerate(fleet.tables):
        still = ~(w.known[t] | wanted[t])
        assert still[:, :-1].any()
        assert torch.equal(table.value[still], w.fleet.tables[t].value[still])


def test_a_wanted_row_is_adopted_as_the_weighted_mean_of_those_who_know_it() -> None:
    w = world("deepfm", edges=1, peers=3)
    w.fetched.present[:] = True
    w.fetched.index[:] = torch.tensor([[0, 1, 2]])
    table, row = 1, 4
    w.known[table][0, row] = False
    w.fetched.has[table][:3, row] = torch.tensor([True, False, True])
    wanted = [torch.zeros_like(k) for k in w.known]
    wanted[table][0, row] = True
    fleet, _ = w.aggregate(Weights.fixed(torch.tensor([[5.0, 1.0, 7.0, 3.0]]).double()), ByRecords(), wanted)
    pool = w.fetched.tables[table]
    torch.testing.assert_close(fleet.tables[table].value[0, row], 0.25 * pool[0, row] + 0.75 * pool[2, row])


@pytest.mark.parametrize("weight", [0.0, 1e-3, 1e-9])
def test_a_wanted_row_is_a_mean_however_small_the_weights_of_those_who_know_it(weight: float) -> None:
    w = world("deepfm", edges=1, peers=2)
    w.fetched.present[:] = True
    w.fetched.index[:] = torch.tensor([[0, 1]])
    w.known[0][0, 2] = False
    w.fetched.has[0][:2, 2] = True
    wanted = [torch.zeros_like(k) for k in w.known]
    wanted[0][0, 2] = True
    fleet, _ = w.aggregate(Weights.fixed(torch.tensor([[1.0, weight, 3 * weight]]).double()), ByRecords(), wanted)
    pool, own = w.fetched.tables[0], w.fleet.tables[0].value[0, 2]
    expected = own if weight == 0 else 0.25 * pool[0, 2] + 0.75 * pool[1, 2]
    torch.testing.assert_close(fleet.tables[0].value[0, 2], expected)


def test_a_wanted_row_that_nobody_knows_is_left_as_it_was() -> None:
    w = world("deepfm")
    wanted = [~k for k in w.known]
    for has, table in zip(w.fetched.has, w.fetched.tables, strict=True):
        has[:], table[:] = False, 0
    fleet, _ = w.aggregate(w.weights(), Uniform(), wanted)
    for table, before in zip(fleet.tables, w.fleet.tables, strict=True):
        torch.testing.assert_close(table.value, before.value, rtol=0, atol=0)


def test_a_row_that_is_known_and_wanted_is_mixed_like_a_known_one() -> None:
    w = world("deepfm")
    plain, _ = w.aggregate(w.weights(), Uniform())
    both, _ = w.aggregate(w.weights(), Uniform(), [k.clone() for k in w.known])
    for a, b in zip(plain.tables, both.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("rule", [Learned(), Uniform()])
@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_peer_has_no_effect_even_if_its_model_is_broken(kind: str, rule: Learned | Uniform) -> None:
    w = world(kind)
    w.fetched.index[:] = torch.tensor([0, 1, 2, 3])
    w.fetched.present[:] = torch.tensor([True, False, True, False])
    clean, weights = w.aggregate(w.weights(), rule)
    for broken in (1, 3):
        w.fetched.dense[broken] = torch.nan
        for table, has in zip(w.fetched.tables, w.fetched.has, strict=True):
            table[broken], has[broken] = 1e30, True
    dirty, same = w.aggregate(w.weights(), rule)
    assert torch.equal(clean.dense, dirty.dense)
    assert torch.equal(weights.raw, same.raw)
    for a, b in zip(clean.tables, dirty.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=0, atol=0)


@given(st.integers(0, 1000), st.sampled_from(["mlp", "deepfm"]))
def test_a_peer_with_weight_zero_has_no_effect_on_the_mix(seed: int, kind: str) -> None:
    w = world(kind, seed=seed, edges=2)
    w.fetched.index[:] = torch.tensor([0, 1, 2, 3])
    raw = torch.rand(2, 5).double()
    raw[:, 2] = 0
    wanted = [torch.rand(k.shape) < 0.5 for k in w.known]
    one, _ = w.aggregate(Weights.fixed(raw), ByRecords(), wanted)
    w.fetched.dense[1] += 100
    for table, has in zip(w.fetched.tables, w.fetched.has, strict=True):
        table[1] -= 100
        has[1] = True
    other, _ = w.aggregate(Weights.fixed(raw), ByRecords(), wanted)
    assert torch.equal(one.dense, other.dense)
    for a, b in zip(one.tables, other.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_all_zero_leave_the_own_model_to_the_bit(kind: str) -> None:
    w = world(kind)
    fleet, _ = w.aggregate(w.weights(0.0), ByRecords())
    assert torch.equal(fleet.dense, w.fleet.dense)
    for a, b in zip(fleet.tables, w.fleet.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("rule", [Learned(), Uniform(), Alone()])
@pytest.mark.parametrize("kind", ["mlp", "deepfm"])
def test_an_edge_without_peers_keeps_its_model(kind: str, rule: Learned | Uniform | Alone) -> None:
    w = world(kind)
    nobody = replace(w.fetched, index=torch.zeros(3, 0, dtype=torch.long), present=torch.zeros(3, 0, dtype=torch.bool))
    w = w._replace(fetched=nobody)
    fleet, _ = w.aggregate(w.weights(), rule)
    assert torch.equal(fleet.dense, w.fleet.dense)
    for a, b in zip(fleet.tables, w.fleet.tables, strict=True):
        assert torch.equal(a.value, b.value)


@given(st.integers(0, 1000), st.permutations(range(4)))
def test_permuting_the_peers_leaves_the_mix(seed: int, order: list[int]) -> None:
    w = world("deepfm", seed=seed)
    raw = torch.rand(3, 5).double()
    wanted = [torch.rand(k.shape) < 0.5 for k in w.known]
    one, _ = w.aggregate(Weights.fixed(raw), ByRecords(), wanted)
    turned = replace(w.fetched, index=w.fetched.index[:, order], present=w.fetched.present[:, order])
    columns = [0] + [1 + p for p in order]
    other, _ = w._replace(fetched=turned).aggregate(Weights.fixed(raw[:, columns]), ByRecords(), wanted)
    torch.testing.assert_close(one.dense, other.dense, rtol=1e-12, atol=1e-12)
    for a, b in zip(one.tables, other.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=1e-12, atol=1e-12)


def test_identical_models_mix_to_themselves() -> None:
    w = world("two tables")
    w.fleet.dense[:] = w.fleet.dense[0]
    w.fetched.dense[:] = w.fleet.dense[0]
    for mine, theirs, has in zip(w.fleet.tables, w.fetched.tables, w.fetched.has, strict=True):
        mine.value[:] = mine.value[0]
        theirs[:] = mine.value[0] * has.unsqueeze(2)
    fleet, _ = w.aggregate(w.weights(), Learned())
    torch.testing.assert_close(fleet.dense, w.fleet.dense, rtol=1e-12, atol=1e-12)
    for a, b in zip(fleet.tables, w.fleet.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=1e-12, atol=1e-12)


def test_the_optimizers_state_and_what_was_fetched_survive_the_mix() -> None:
    w = world("two tables")
    for table in w.fleet.tables:
        table.m += torch.randn_like(table.m)
    w.fleet.dense_m += 1
    w.fleet.steps += 7
    pool = copy.deepcopy(w.fetched)
    fleet, _ = w.aggregate(w.weights(), Learned())
    assert torch.equal(fleet.dense_m, w.fleet.dense_m)
    assert fleet.steps.tolist() == [7] * 3
    for a, b in zip(fleet.tables, w.fleet.tables, strict=True):
        assert torch.equal(a.m, b.m)
        assert torch.equal(a.v, b.v)
    assert torch.equal(pool.dense, w.fetched.dense)
    assert all(torch.equal(a, b) for a, b in zip(pool.tables, w.fetched.tables, strict=True))


def test_a_part_of_a_fleet_aggregates_without_touching_the_other_edges() -> None:
    w = world("two tables")
    whole = ModelState.start([w.model], [0] * 6)
    for mine, table in zip(whole.tables, w.fleet.tables, strict=True):
        mine.value[[4, 1, 2]] = table.value
    whole.dense[[4, 1, 2]] = w.fleet.dense
    others = [t.value[[0, 3, 5]].clone() for t in whole.tables]
    part = whole.part(torch.tensor([4, 1, 2]))
    expected, _ = w.aggregate(w.weights(), Learned())
    aggregate(part, w.fetched, w.weights(), Learned(), [w.batch], Stacked(w.model), w.known)
    torch.testing.assert_close(part.dense, expected.dense)
    for mine, table, other in zip(whole.tables, expected.tables, others, strict=True):
        torch.testing.assert_close(mine.value[[4, 1, 2]], table.value)
        assert torch.equal(mine.value[[0, 3, 5]], other)


# -- running statistics --


class _Statistics(nn.Module):
    """Buffers of every shape that a module may have."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 1)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("matrix", torch.zeros(2, 3))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x - self.mean) * self.scale


def _with_statistics(module: Callable[[], nn.Module]) -> World:
    case = Case(module, numbers(5))
    model = case.model()
    fleet, pool = ModelState.start([model], [0] * 2), ModelState.start([model], [0] * 3)
    for each in (fleet, pool):
        for name in model.statistics():
            each.buffers[name] += torch.rand_like(each.buffers[name])
    present = torch.tensor([[True, True], [False, True]])
    index = torch.tensor([[0, 1], [0, 2]])
    statistics = {name: pool.buffers[name] for name in model.statistics()}
    fetched = HeldModels(pool.dense, (), (), statistics, index, present)
    inputs = case.inputs(2, 4)
    return World(model, fleet, fetched, inputs, batch_of(inputs, torch.ones(2, 4).double(), model), [])


@pytest.mark.parametrize("name", ["mean", "scale", "matrix"])
def test_statistics_are_mixed_like_parameters(name: str) -> None:
    w = _with_statistics(_Statistics)
    only = replace(w.fetched, statistics={name: w.fetched.statistics[name]})
    raw = torch.tensor([[1.0, 2.0, 5.0], [3.0, 9.0, 1.0]]).double()
    fleet, _ = w._replace(fetched=only).aggregate(Weights.fixed(raw), ByRecords())
    own, pool = w.fleet.buffers[name], w.fetched.statistics[name]
    torch.testing.assert_close(fleet.buffers[name][0], (own[0] + 2 * pool[0] + 5 * pool[1]) / 8)
    torch.testing.assert_close(fleet.buffers[name][1], (3 * own[1] + pool[2]) / 4)
    assert torch.equal(fleet.buffers["count"], w.fleet.buffers["count"])


def test_a_silent_peers_broken_statistics_have_no_effect() -> None:
    w = _with_statistics(lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    clean, _ = w.aggregate(w.weights(), Uniform())
    w.fetched.present[0, 0] = False
    for pool in w.fetched.statistics.values():
        pool[0] = torch.nan
    dirty, _ = w.aggregate(w.weights(), Uniform())
    for name, buffer in dirty.buffers.items():
        assert buffer.isfinite().all(), name
        assert torch.equal(buffer[1], clean.buffers[name][1]), name


def test_statistics_stay_local_unless_they_are_fetched() -> None:
    w = _with_statistics(_Statistics)
    local = w._replace(fetched=replace(w.fetched, statistics={}))
    fleet, _ = local.aggregate(w.weights(), Uniform())
    for name, buffer in fleet.buffers.items():
        assert torch.equal(buffer, w.fleet.buffers[name])


def test_a_constant_buffer_with_infinities_survives_mixing() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(5, 1)
            self.register_buffer("mask", torch.full((5, 5), -torch.inf).triu(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.out((torch.softmax(self.mask + x.unsqueeze(1), -1) * x.unsqueeze(1)).sum(-1))

    w = _with_statistics(Masked)
    fleet, _ = w.aggregate(w.weights(), Uniform())
    assert not fleet.buffers["mask"].isnan().any()


# -- settings --


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"rate": 0}, "weight rate"),
        ({"rate": -1}, "weight rate"),
        ({"start": 0}, "start"),
        ({"newcomer": -0.5}, "newcomer"),
        ({"newcomer": float("nan")}, "newcomer"),
        ({"batches": 0}, "batches"),
        ({"batches": "two"}, "batches"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Learned(**settings)
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found is found
    assert "number" in caught.value.allowed


def test_the_papers_weights_move_by_at_most_a_hundredth_per_aggregation() -> None:
    paper = Learned.paper()
    assert (paper.steps, paper.rate, paper.newcomer, paper.remember, paper.batches) == (10, 0.001, 0, False, 1)
    w = world("mlp")
    _, after = w.aggregate(w.weights(), paper)
    assert 0 < (after.raw - 1).abs().max() <= 0.0101


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 10**9), st.booleans()), min_size=1, max_size=6),
    st.floats(0.01, 5),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_pulled_weights_keep_their_sum_and_who_is_absent_keeps_its_own(
    peers: list[tuple[float, int, bool]], own: float, seen: int, pull: float
) -> None:
    raw = torch.tensor([[own, *(p[0] for p in peers)]], dtype=torch.float64)
    records = torch.tensor([[seen, *(p[1] for p in peers)]], dtype=torch.float64)
    present = torch.tensor([[p[2] for p in peers]])
    found = pulled(Weights.fixed(raw), present, records, Learned(pull=pull)).raw
    taking = torch.cat([torch.tensor([[True]]), present], dim=1)
    assert torch.equal(found[~taking], raw[~taking])
    assert float(found[taking].sum()) == pytest.approx(float(raw[taking].sum()))
    assert bool((found >= 0).all())


def test_a_full_pull_is_the_share_of_records_within_bounds() -> None:
    raw, records = torch.ones(1, 4), torch.tensor([[100.0, 200.0, 1e12, 1.0]])
    found = pulled(Weights.fixed(raw), torch.ones(1, 3, dtype=torch.bool), records, Learned(pull=1.0)).raw
    believed = torch.tensor([[100.0, 200.0, 400.0, 1.0]])
    torch.testing.assert_close(found, 4 * believed / believed.sum())


def test_a_model_that_has_learned_nothing_is_pulled_to_nothing() -> None:
    records = torch.tensor([[15_000.0, 0.0, 0.0]])
    found = pulled(Weights.fixed(torch.ones(1, 3)), torch.ones(1, 2, dtype=torch.bool), records, Learned(pull=1.0)).raw
    assert found.tolist() == [[3.0, 0.0, 0.0]]


def test_without_pull_weights_stay_as_learned() -> None:
    weights = Weights.fixed(torch.rand(2, 3))
    found = pulled(weights, torch.ones(2, 2, dtype=torch.bool), torch.rand(2, 3) * 100, Learned(pull=0.0))
    assert torch.equal(found.raw, weights.raw)
