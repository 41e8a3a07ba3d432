"""The mix: shares sum to one, the mean is what numpy computes, and a model that takes no part has no effect."""

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from alphaedge.core.aggregation import Aggregation, HeldModels, PeerMemory, shares_of
from alphaedge.core.gradients import Stacked
from alphaedge.core.rules.aggregation.alone import Alone
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue

from .mixes import KINDS, AsWeighed, MixCase, in_a_stack, mix_case
from .zoo import Case, batch_of, numbers

# -- shares --


_raw = st.lists(st.lists(st.floats(0, 1e6, width=32), min_size=4, max_size=4), min_size=1, max_size=4)
_there = st.lists(st.booleans(), min_size=3, max_size=3)


@given(_raw, _there)
def test_shares_are_not_negative_and_sum_to_one(raw: list[list[float]], there: list[bool]) -> None:
    present = torch.tensor([there] * len(raw))
    shares = shares_of(torch.tensor(raw), present)
    assert (shares >= 0).all()
    torch.testing.assert_close(shares.sum(1), torch.ones(len(raw)))
    assert (shares[:, 1:][~present] == 0).all()


@given(_raw, _there)
def test_shares_are_the_weights_of_those_present_over_their_sum(raw: list[list[float]], there: list[bool]) -> None:
    weights = np.array(raw, dtype=np.float64) * np.array([True, *there])
    assume((weights.sum(1) > 1e-3).all())
    shares = shares_of(torch.tensor(raw, dtype=torch.float64), torch.tensor([there] * len(raw)))
    np.testing.assert_allclose(shares.numpy(), weights / weights.sum(1, keepdims=True), rtol=1e-12)


@given(_there, st.sampled_from([0.0, 1e-9]))
def test_weights_that_have_vanished_leave_the_own_model(there: list[bool], value: float) -> None:
    shares = shares_of(torch.full((2, 4), value), torch.tensor([there] * 2))
    assert shares.tolist() == [[1, 0, 0, 0]] * 2


def test_only_the_ratio_of_weights_matters() -> None:
    raw, present = torch.rand(3, 5).double(), torch.rand(3, 4) < 0.6
    torch.testing.assert_close(shares_of(raw, present), shares_of(1000 * raw, present))


# -- the mix --


def _numpy_mix(
    case: MixCase, raw: np.ndarray, wanted: list[Tensor] | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Dense parts and tables after the mix, entry by entry."""
    present, index = case.held.present.numpy(), case.held.index.numpy()
    dense = case.models.dense.numpy().copy()
    tables = [t.value.numpy().copy() for t in case.models.tables]
    for e in range(len(dense)):
        there = [p for p in range(index.shape[1]) if present[e, p]]
        total = raw[e, 0] + sum(raw[e, 1 + p] for p in there)
        share = {p: raw[e, 1 + p] / total for p in there}
        dense[e] = raw[e, 0] / total * case.models.dense.numpy()[e]
        for p in there:
            dense[e] += share[p] * case.held.dense.numpy()[index[e, p]]
        for t, table in enumerate(tables):
            for row in range(table.shape[1]):
                own = case.models.tables[t].value.numpy()[e, row]
                experts = [p for p in there if case.held.has[t][index[e, p], row]]
                theirs = {p: case.held.tables[t].numpy()[index[e, p], row] for p in experts}
                if case.known[t][e, row]:
                    known = sum(share[p] for p in experts)
                    table[e, row] = (1 - known) * own + sum(share[p] * theirs[p] for p in experts)
                elif wanted and wanted[t][e, row] and sum(share[p] for p in experts) > 0:
                    known = sum(share[p] for p in experts)
                    table[e, row] = sum(share[p] / known * theirs[p] for p in experts)
    return dense, tables


def _assert_mixed(models: ModelState, expected: tuple[np.ndarray, list[np.ndarray]]) -> None:
    np.testing.assert_allclose(models.dense.numpy(), expected[0], rtol=1e-10, atol=1e-12)
    for table, value in zip(models.tables, expected[1], strict=True):
        np.testing.assert_allclose(table.value.numpy(), value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", [ByRecords(), Uniform(), Learned(rate=0.05)])
def test_the_mix_is_the_one_that_numpy_computes(kind: str, rule: Aggregation) -> None:
    for seed in range(3):
        case = mix_case(kind, seed=seed)
        raw = torch.randint(1, 900, (3, 5)).double() if isinstance(rule, ByRecords) else torch.ones(3, 5).double()
        wanted = [torch.rand(k.shape) < 0.5 for k in case.known]
        models, after = case.mix(rule, raw, wanted=wanted, records=raw)
        _assert_mixed(models, _numpy_mix(case, after.raw.numpy(), wanted))
        if not isinstance(rule, Learned):
            assert torch.equal(after.raw, raw), "weights that are not learned do not move"


def test_a_row_that_a_peer_has_never_trained_keeps_the_own_value() -> None:
    case = mix_case("deepfm", peers=1)
    case.held.present[:] = True
    models, _ = case.mix(Uniform())
    for t, table in enumerate(models.tables):
        before = case.models.tables[t].value
        untrained = ~case.held.has[t][case.held.index[:, 0]]
        assert torch.equal(table.value[untrained], before[untrained])
        shared = ~untrained & case.known[t]
        assert shared.any()
        assert (table.value[shared] != before[shared]).any(1).all()


def test_rows_that_are_neither_known_nor_wanted_do_not_move() -> None:
    case = mix_case("two tables")
    wanted = [torch.rand(k.shape) < 0.3 for k in case.known]
    models, _ = case.mix(Learned(), wanted=wanted)
    for t, table in enumerate(models.tables):
        still = ~(case.known[t] | wanted[t])
        assert still[:, :-1].any()
        assert torch.equal(table.value[still], case.models.tables[t].value[still])


def test_a_wanted_row_is_adopted_as_the_weighted_mean_of_the_peers_that_know_it() -> None:
    case = mix_case("deepfm", edges=1, peers=3)
    case.held.present[:] = True
    case.held.index[:] = torch.tensor([[0, 1, 2]])
    table, row = 1, 4
    case.known[table][0, row] = False
    case.held.has[table][:3, row] = torch.tensor([True, False, True])
    wanted = [torch.zeros_like(k) for k in case.known]
    wanted[table][0, row] = True
    models, _ = case.mix(AsWeighed(), torch.tensor([[5.0, 1.0, 7.0, 3.0]]).double(), wanted=wanted)
    pool = case.held.tables[table]
    torch.testing.assert_close(models.tables[table].value[0, row], 0.25 * pool[0, row] + 0.75 * pool[2, row])


@pytest.mark.parametrize("weight", [0.0, 1e-3, 1e-9])
def test_a_wanted_row_is_a_mean_however_small_the_weights_of_the_peers_that_know_it(weight: float) -> None:
    case = mix_case("deepfm", edges=1, peers=2)
    case.held.present[:] = True
    case.held.index[:] = torch.tensor([[0, 1]])
    case.known[0][0, 2] = False
    case.held.has[0][:2, 2] = True
    wanted = [torch.zeros_like(k) for k in case.known]
    wanted[0][0, 2] = True
    models, _ = case.mix(AsWeighed(), torch.tensor([[1.0, weight, 3 * weight]]).double(), wanted=wanted)
    pool, own = case.held.tables[0], case.models.tables[0].value[0, 2]
    expected = own if weight == 0 else 0.25 * pool[0, 2] + 0.75 * pool[1, 2]
    torch.testing.assert_close(models.tables[0].value[0, 2], expected)


def test_a_wanted_row_that_nobody_knows_is_left_as_it_was() -> None:
    case = mix_case("deepfm")
    wanted = [~k for k in case.known]
    for has, table in zip(case.held.has, case.held.tables, strict=True):
        has[:], table[:] = False, 0
    models, _ = case.mix(Uniform(), wanted=wanted)
    for table, before in zip(models.tables, case.models.tables, strict=True):
        torch.testing.assert_close(table.value, before.value, rtol=0, atol=0)


def test_a_row_that_is_known_and_wanted_is_mixed_like_a_known_one() -> None:
    case = mix_case("deepfm")
    plain, _ = case.mix(Uniform())
    both, _ = case.mix(Uniform(), wanted=[k.clone() for k in case.known])
    for a, b in zip(plain.tables, both.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("rule", [Learned(), Uniform()])
@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_peer_has_no_effect_even_if_its_model_is_broken(kind: str, rule: Aggregation) -> None:
    case = mix_case(kind)
    case.held.index[:] = torch.tensor([0, 1, 2, 3])
    case.held.present[:] = torch.tensor([True, False, True, False])
    clean, weights = case.mix(rule)
    for broken in (1, 3):
        case.held.dense[broken] = torch.nan
        for table, has in zip(case.held.tables, case.held.has, strict=True):
            table[broken], has[broken] = 1e30, True
    dirty, same = case.mix(rule)
    assert torch.equal(clean.dense, dirty.dense)
    assert torch.equal(weights.raw, same.raw)
    for a, b in zip(clean.tables, dirty.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=0, atol=0)


@given(st.integers(0, 1000), st.sampled_from(["mlp", "deepfm"]))
def test_a_peer_with_weight_zero_has_no_effect_on_the_mix(seed: int, kind: str) -> None:
    case = mix_case(kind, seed=seed, edges=2)
    case.held.index[:] = torch.tensor([0, 1, 2, 3])
    raw = torch.rand(2, 5).double()
    raw[:, 2] = 0
    wanted = [torch.rand(k.shape) < 0.5 for k in case.known]
    one, _ = case.mix(AsWeighed(), raw, wanted=wanted)
    case.held.dense[1] += 100
    for table, has in zip(case.held.tables, case.held.has, strict=True):
        table[1] -= 100
        has[1] = True
    other, _ = case.mix(AsWeighed(), raw, wanted=wanted)
    assert torch.equal(one.dense, other.dense)
    for a, b in zip(one.tables, other.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_all_zero_leave_the_own_model_to_the_bit(kind: str) -> None:
    case = mix_case(kind)
    models, _ = case.mix(AsWeighed(), 0 * case.ones())
    assert torch.equal(models.dense, case.models.dense)
    for a, b in zip(models.tables, case.models.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("rule", [Learned(), Uniform(), Alone()])
@pytest.mark.parametrize("kind", ["mlp", "deepfm"])
def test_an_edge_whose_peers_are_all_silent_keeps_its_model(kind: str, rule: Aggregation) -> None:
    case = mix_case(kind)
    case.held.present[:] = False
    models, _ = case.mix(rule)
    assert torch.equal(models.dense, case.models.dense)
    for a, b in zip(models.tables, case.models.tables, strict=True):
        assert torch.equal(a.value, b.value)


@given(st.integers(0, 1000), st.permutations(range(4)))
def test_permuting_the_peers_leaves_the_mix(seed: int, order: list[int]) -> None:
    case = mix_case("deepfm", seed=seed)
    raw = torch.rand(3, 5).double()
    wanted = [torch.rand(k.shape) < 0.5 for k in case.known]
    one, _ = case.mix(AsWeighed(), raw, wanted=wanted)
    turned = replace(case.held, index=case.held.index[:, order], present=case.held.present[:, order])
    columns = [0] + [1 + p for p in order]
    other, _ = case._replace(held=turned).mix(AsWeighed(), raw[:, columns], wanted=wanted)
    torch.testing.assert_close(one.dense, other.dense, rtol=1e-12, atol=1e-12)
    for a, b in zip(one.tables, other.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=1e-12, atol=1e-12)


def test_identical_models_mix_to_themselves() -> None:
    case = mix_case("two tables")
    case.models.dense[:] = case.models.dense[0]
    case.held.dense[:] = case.models.dense[0]
    for mine, theirs, has in zip(case.models.tables, case.held.tables, case.held.has, strict=True):
        mine.value[:] = mine.value[0]
        theirs[:] = mine.value[0] * has.unsqueeze(2)
    models, _ = case.mix(Learned())
    torch.testing.assert_close(models.dense, case.models.dense, rtol=1e-12, atol=1e-12)
    for a, b in zip(models.tables, case.models.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=1e-12, atol=1e-12)


def test_the_optimizers_state_and_the_held_models_survive_the_mix() -> None:
    case = mix_case("two tables")
    for table in case.models.tables:
        table.m.add_(torch.randn_like(table.m))
    case.models.dense_m += 1
    case.models.steps += 7
    pool = copy.deepcopy(case.held)
    models, _ = case.mix(Learned())
    assert torch.equal(models.dense_m, case.models.dense_m)
    assert models.steps.tolist() == [7] * 3
    for a, b in zip(models.tables, case.models.tables, strict=True):
        assert torch.equal(a.m, b.m)
        assert torch.equal(a.v, b.v)
    assert torch.equal(pool.dense, case.held.dense)
    assert all(torch.equal(a, b) for a, b in zip(pool.tables, case.held.tables, strict=True))


def test_some_edges_mix_without_touching_the_others() -> None:
    case = mix_case("two tables")
    whole, part, others = in_a_stack(case)
    expected, _ = case.mix(Learned())
    case.mix(Learned(), gradients=Stacked(case.model), into=part)
    torch.testing.assert_close(part.dense, expected.dense)
    for mine, table, other in zip(whole.tables, expected.tables, others, strict=True):
        torch.testing.assert_close(mine.value[[4, 1, 2]], table.value)
        assert torch.equal(mine.value[[0, 3, 5]], other)


# -- running statistics --


class Statistics(nn.Module):
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


def with_statistics(module: Callable[[], nn.Module]) -> MixCase:
    case = Case(module, numbers(5))
    model = case.model()
    models, pool = ModelState.start([model], [0] * 2), ModelState.start([model], [0] * 3)
    for each in (models, pool):
        for name in model.statistics():
            each.buffers[name] += torch.rand_like(each.buffers[name])
    present = torch.tensor([[True, True], [False, True]])
    index = torch.tensor([[0, 1], [0, 2]])
    statistics = {name: pool.buffers[name] for name in model.statistics()}
    held = HeldModels(pool.dense, (), (), statistics, index, present)
    inputs = case.inputs(2, 4)
    return MixCase(model, models, held, inputs, batch_of(inputs, torch.ones(2, 4).double(), model), [])


@pytest.mark.parametrize("name", ["mean", "scale", "matrix"])
def test_statistics_are_mixed_like_parameters(name: str) -> None:
    case = with_statistics(Statistics)
    only = replace(case.held, statistics={name: case.held.statistics[name]})
    raw = torch.tensor([[1.0, 2.0, 5.0], [3.0, 9.0, 1.0]]).double()
    models, _ = case._replace(held=only).mix(AsWeighed(), raw)
    own, pool = case.models.buffers[name], case.held.statistics[name]
    torch.testing.assert_close(models.buffers[name][0], (own[0] + 2 * pool[0] + 5 * pool[1]) / 8)
    torch.testing.assert_close(models.buffers[name][1], (3 * own[1] + pool[2]) / 4)
    assert torch.equal(models.buffers["count"], case.models.buffers["count"])


def test_a_silent_peers_broken_statistics_have_no_effect() -> None:
    case = with_statistics(lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    clean, _ = case.mix(Uniform())
    case.held.present[0, 0] = False
    for pool in case.held.statistics.values():
        pool[0] = torch.nan
    dirty, _ = case.mix(Uniform())
    for name, buffer in dirty.buffers.items():
        assert buffer.isfinite().all(), name
        assert torch.equal(buffer[1], clean.buffers[name][1]), name


def test_statistics_stay_local_unless_they_are_held() -> None:
    case = with_statistics(Statistics)
    local = case._replace(held=replace(case.held, statistics={}))
    models, _ = local.mix(Uniform())
    for name, buffer in models.buffers.items():
        assert torch.equal(buffer, case.models.buffers[name])


def test_a_constant_buffer_with_infinities_survives_mixing() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(5, 1)
            self.register_buffer("mask", torch.full((5, 5), -torch.inf).triu(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.out((torch.softmax(self.mask + x.unsqueeze(1), -1) * x.unsqueeze(1)).sum(-1))

    case = with_statistics(Masked)
    models, _ = case.mix(Uniform())
    assert not models.buffers["mask"].isnan().any()


# -- what is kept of each peer --


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"start": 0}, "start"),
        ({"newcomer": -0.5}, "newcomer"),
        ({"newcomer": float("nan")}, "newcomer"),
        ({"fade": 1.1}, "fade"),
        ({"fade": -0.1}, "fade"),
    ],
)
def test_an_impossible_memory_is_refused(settings: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        PeerMemory(**settings)
    assert caught.value.field == field
    assert "number" in caught.value.allowed
