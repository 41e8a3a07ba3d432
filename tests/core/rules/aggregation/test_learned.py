"""Learned weights follow the true gradient of the mixture's loss, by torch's Adam clamped at zero."""

import copy
import random
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.core.aggregation import Weights, mixture, shares_of
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.objective import Objective
from alphaedge.core.rules.aggregation.learned import Learned, learn_weights, towards_records, weight_gradient
from alphaedge.errors import InvalidValue

from ...mixes import KINDS, fresh, mix_case
from ...zoo import ZOO, batch_of


def learning(steps: int = 10, rate: float = 0.2) -> Learned:
    """Gradient steps alone: no prior draws the weights before they are learned."""
    return Learned(steps=steps, rate=rate, prior=0.0)


# -- the gradient of the weights --


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_gradient_is_autograds_over_the_materialised_mixture(
    kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    for seed in range(3):
        case = mix_case(kind, dtype, seed)
        raw = torch.rand(3, 5).to(dtype) + 0.2
        _, after = case.mix(learning(steps=1, rate=0.05), raw)
        gradient = after.numbers["m"] / 0.1  # after one step from zero, m is (1 - beta1) times the gradient
        for edge in range(3):
            a = raw[edge].clone().requires_grad_()
            (expected,) = torch.autograd.grad(case.loss(edge, a), a)
            torch.testing.assert_close(gradient[edge], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_learned_weights_are_torchs_adam_on_the_materialised_mixture_clamped_at_zero(kind: str) -> None:
    case = mix_case(kind, seed=5)
    raw = torch.rand(3, 5).double()
    _, after = case.mix(learning(steps=10, rate=0.1), raw)
    assert (after.raw == 0).any(), "no weight met the clamp: the test shows too little"
    for edge in range(3):
        a = raw[edge].clone().requires_grad_()
        adam = torch.optim.Adam([a], lr=0.1)
        for _ in range(10):
            adam.zero_grad()
            case.loss(edge, a).backward()
            adam.step()
            a.data.clamp_(min=0)
        torch.testing.assert_close(after.raw[edge], a.detach(), rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(after.numbers["m"][edge], adam.state[a]["exp_avg"], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(after.numbers["v"][edge], adam.state[a]["exp_avg_sq"], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_goes_on_where_the_last_aggregation_left_the_weights(kind: str) -> None:
    case = mix_case(kind, seed=2)
    _, at_once = case.mix(learning(steps=9, rate=0.02))
    weights = fresh(learning(), case.ones())
    for steps in (2, 3, 4):
        _, weights = case.mix(learning(steps=steps, rate=0.02), weights)
    torch.testing.assert_close(at_once.raw, weights.raw, rtol=1e-12, atol=1e-12)
    for name in ("m", "v", "steps"):
        torch.testing.assert_close(at_once.numbers[name], weights.numbers[name], rtol=1e-12, atol=1e-12)
    assert at_once.numbers["steps"][:, 0].tolist() == [9] * 3


def test_both_engines_learn_the_same_weights() -> None:
    case = mix_case("two tables")
    learned = []
    for gradients in (Stacked(case.model), OneAtATime(case.model)):
        models = copy.deepcopy(case.models)
        for _ in range(3):
            _, after = case.mix(learning(), gradients=gradients, into=models)
        learned.append((after.raw, models.dense))
    torch.testing.assert_close(learned[0], learned[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("steps", [2, 7])
def test_each_step_takes_the_next_of_the_weight_batches(steps: int) -> None:
    case = mix_case("two tables", seed=3)
    cases = [case]
    for _ in range(2):
        inputs, labels = ZOO["two tables"].inputs(3, 6), torch.randint(0, 2, (3, 6)).double()
        cases.append(case._replace(inputs=inputs, batch=batch_of(inputs, labels, case.model)))
    case = case._replace(known=[torch.ones_like(rows) for rows in case.known])  # as those of revealed batches are
    _, after = case.mix(learning(steps=steps, rate=0.05), batches=[each.batch for each in cases])
    for edge in range(3):
        a = torch.ones(5).double().requires_grad_()
        adam = torch.optim.Adam([a], lr=0.05)
        for step in range(steps):
            adam.zero_grad()
            cases[step % 3].loss(edge, a).backward()
            adam.step()
            a.data.clamp_(min=0)
        torch.testing.assert_close(after.raw[edge], a.detach(), rtol=1e-8, atol=1e-9)


def test_weights_are_drawn_towards_records_before_they_are_learned() -> None:
    case, raw = mix_case("deepfm", seed=4), torch.rand(3, 5).double() + 0.2
    records = torch.randint(1, 900, (3, 5)).double()
    _, after = case.mix(Learned(steps=10, rate=0.05, prior=0.3), raw, records=records)
    _, expected = case.mix(learning(rate=0.05), towards_records(raw, case.held.present, records, 0.3))
    assert torch.equal(after.raw, expected.raw)
    assert not torch.equal(after.raw, case.mix(learning(rate=0.05), raw, records=records)[1].raw)


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

    def distance(self, parts: list[Tensor]) -> Tensor:
        return ((torch.cat(parts, dim=1) - self.target) ** 2).sum(1) / 2

    def learn(self, weights: Weights, rule: Learned) -> Weights:
        differences = self.differences.masked_fill(~self.present.unsqueeze(2), 0).split([2, 3], dim=2)
        objective = Objective(self.own.split([2, 3], dim=1), differences, self.slope)
        return learn_weights(weights, self.present, [objective], rule)

    def loss(self, weights: Weights) -> Tensor:
        mixed = mixture(shares_of(weights.raw, self.present), self.own, self.differences)
        return self.distance([mixed])


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
    mixed = mixture(shares_of(raw, toy.present), toy.own, toy.differences)
    masked = toy.differences.masked_fill(~toy.present.unsqueeze(2), 0)
    gradient = weight_gradient(raw, toy.present, [masked], [mixed - toy.target])
    for j in range(raw.shape[1]):
        step = torch.zeros_like(raw)
        step[:, j] = 1e-6
        up, down = toy.loss(Weights(raw + step)), toy.loss(Weights(raw - step))
        torch.testing.assert_close(gradient[:, j], (up - down) / 2e-6, rtol=1e-5, atol=1e-6)


@given(toys(), st.integers(1, 30))
def test_weights_never_fall_below_zero(toy: Toy, steps: int) -> None:
    after = toy.learn(fresh(Learned(), toy.raw), Learned(steps=steps, rate=0.3))
    assert (after.raw >= 0).all()
    assert after.raw.isfinite().all()


@given(toys())
def test_a_silent_peer_keeps_its_weight_and_its_adam_state(toy: Toy) -> None:
    numbers = {"m": torch.rand_like(toy.raw), "v": torch.rand_like(toy.raw), "steps": torch.full_like(toy.raw, 3)}
    after = toy.learn(Weights(toy.raw, numbers), Learned(steps=10, rate=0.2))
    silent = torch.cat([torch.zeros_like(toy.present[:, :1]), ~toy.present], dim=1)
    assert after.numbers.keys() == numbers.keys()
    for now, then in ((after.raw, toy.raw), *((after.numbers[name], numbers[name]) for name in numbers)):
        assert torch.equal(now[silent], then[silent])
        assert now.shape == then.shape
    assert (after.numbers["steps"][~silent] == 13).all()


@given(toys(), st.randoms(use_true_random=False))
def test_permuting_the_peers_permutes_the_learned_weights(toy: Toy, rng: random.Random) -> None:
    order = list(range(toy.present.shape[1]))
    rng.shuffle(order)
    columns = [0] + [1 + p for p in order]
    turned = toy._replace(differences=toy.differences[:, order], present=toy.present[:, order], raw=toy.raw[:, columns])
    rule = Learned(rate=0.1)
    one, other = toy.learn(fresh(rule, toy.raw), rule), turned.learn(fresh(rule, turned.raw), rule)
    torch.testing.assert_close(one.raw[:, columns], other.raw, rtol=1e-7, atol=1e-9)


@given(toys())
def test_learning_changes_none_of_its_arguments(toy: Toy) -> None:
    weights = Weights(toy.raw.clone(), {name: torch.rand_like(toy.raw) for name in ("m", "v", "steps")})
    before = copy.deepcopy(weights)
    toy.learn(weights, Learned(rate=0.2))
    assert torch.equal(weights.raw, before.raw)
    for name, numbers in weights.numbers.items():
        assert torch.equal(numbers, before.numbers[name])


@given(toys())
def test_a_few_small_steps_do_not_raise_the_loss(toy: Toy) -> None:
    start = fresh(Learned(), toy.raw + 0.5)
    after = toy.learn(start, Learned(steps=5, rate=1e-4))
    assert (toy.loss(after) <= toy.loss(start) + 1e-9).all()


def test_a_peer_that_is_right_gains_weight_and_one_that_is_wrong_loses_all_of_it() -> None:
    own, target = torch.zeros(1, 5).double(), torch.ones(1, 5).double()
    differences = torch.stack([target - own, -3 * target], dim=1)
    toy = Toy(own, differences, torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3).double(), target)
    after = toy.learn(fresh(Learned(), toy.raw), Learned(steps=60, rate=0.05))
    assert after.raw[0, 1] > after.raw[0, 0]
    assert after.raw[0, 2] == 0


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
        ({"fade": 1.5}, "fade"),
        ({"weight_batches": 0}, "weight_batches"),
        ({"weight_batches": "two"}, "weight_batches"),
        ({"prior": 1.5}, "prior"),
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
    assert (paper.steps, paper.rate, paper.newcomer, paper.remember, paper.weight_batches) == (10, 0.001, 0, False, 1)
    _, after = mix_case("mlp").mix(paper)
    assert 0 < (after.raw - 1).abs().max() <= 0.0101


# -- the prior --


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 10**9), st.booleans()), min_size=1, max_size=6),
    st.floats(0.01, 5),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_weights_drawn_towards_records_keep_their_sum_and_absent_peers_keep_theirs(
    peers: list[tuple[float, int, bool]], own: float, seen: int, prior: float
) -> None:
    raw = torch.tensor([[own, *(p[0] for p in peers)]], dtype=torch.float64)
    records = torch.tensor([[seen, *(p[1] for p in peers)]], dtype=torch.float64)
    present = torch.tensor([[p[2] for p in peers]])
    drawn = towards_records(raw, present, records, prior)
    taking = torch.cat([torch.tensor([[True]]), present], dim=1)
    assert torch.equal(drawn[~taking], raw[~taking])
    assert float(drawn[taking].sum()) == pytest.approx(float(raw[taking].sum()))
    assert bool((drawn >= 0).all())


def test_a_full_prior_is_the_share_of_records_within_bounds() -> None:
    raw, records = torch.ones(1, 4), torch.tensor([[100.0, 200.0, 1e12, 1.0]])
    drawn = towards_records(raw, torch.ones(1, 3, dtype=torch.bool), records, 1.0)
    believed = torch.tensor([[100.0, 200.0, 400.0, 1.0]])
    torch.testing.assert_close(drawn, 4 * believed / believed.sum())


def test_a_model_that_has_learned_nothing_is_drawn_to_nothing() -> None:
    records = torch.tensor([[15_000.0, 0.0, 0.0]])
    drawn = towards_records(torch.ones(1, 3), torch.ones(1, 2, dtype=torch.bool), records, 1.0)
    assert drawn.tolist() == [[3.0, 0.0, 0.0]]


def test_without_prior_weights_stay_as_learned() -> None:
    raw = torch.rand(2, 3)
    drawn = towards_records(raw, torch.ones(2, 2, dtype=torch.bool), torch.rand(2, 3) * 100, 0.0)
    assert torch.equal(drawn, raw)
