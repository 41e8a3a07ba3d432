"""Checks of aggregation rules, on a few edges with random models."""

import copy
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from alphaedge.core.aggregation import Aggregation, HeldModels, Mixing, Weights, shares_of
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.model import IdTable, Model
from alphaedge.core.model_check import as_batch
from alphaedge.core.rule_check import check_rule
from alphaedge.core.state import ModelState
from alphaedge.testing.expectations import all_close, expect, expect_picklable, run_checks

EDGES, PEERS, ROWS, BATCH = 3, 4, 12, 8


class _Tiny(nn.Module):
    """A model with an id table, a dense part and a running statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.item = nn.Embedding(ROWS, 2)
        self.norm = nn.BatchNorm1d(3)
        self.out = nn.Linear(5, 1)

    def forward(self, item: Tensor, x: Tensor) -> Tensor:
        logits: Tensor = self.out(torch.cat([self.item(item), self.norm(x)], dim=1))
        return logits


def _mixing(seed: int, *, edges: int = EDGES, equal: bool = False) -> Mixing:
    """A mix of a few edges with random models, some peers absent; ``equal``: all models are the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Model(_Tiny().double(), fields=["item", "x"], tables=[IdTable(("item",), ("item.weight",))], loss="bce")
        models, pool = ModelState.start([model], [0] * edges), ModelState.start([model], [0] * (edges * PEERS))
        for state in (models, pool):
            if not equal:
                state.dense += 0.3 * torch.randn_like(state.dense)
                state.tables[0].value[:, :-1] += 0.3 * torch.randn_like(state.tables[0].value[:, :-1])
        has = torch.rand(edges * PEERS, ROWS + 1) < 0.6
        present = torch.rand(edges, PEERS) < 0.7
        known = torch.rand(edges, ROWS + 1) < 0.7
        has[:, -1], known[:, -1], present[:, 0] = False, False, True
        inputs = [torch.randint(0, ROWS, (BATCH,)), torch.randn(BATCH, 3, dtype=torch.float64)]
        batch = as_batch(model, inputs, torch.arange(BATCH) % 2)
        everybody = torch.zeros(edges, dtype=torch.long)
        held = HeldModels(
            pool.dense,
            (pool.tables[0].value * has.unsqueeze(2),),
            (has,),
            {name: pool.buffers[name] for name in model.statistics()},
            torch.arange(edges * PEERS).view(edges, PEERS),
            present,
        )
        records = torch.randint(1, 1000, (edges, 1 + PEERS)).double()
        wanted = torch.rand(edges, ROWS + 1) < 0.2
        wanted[:, -1] = False
        return Mixing(models, held, records, [batch[everybody]], OneAtATime(model), [known], [wanted & ~known])


def _weights(rule: Aggregation, mixing: Mixing) -> Weights:
    shape = mixing.records.shape
    full = {name: torch.full(shape, start, dtype=torch.float64) for name, start in rule.memory.numbers.items()}
    return Weights(torch.full(shape, rule.memory.start, dtype=torch.float64), full)


def _run(rule: Aggregation, mixing: Mixing) -> tuple[Mixing, Weights]:
    """One weighing and one mix on a copy."""
    mixing = copy.deepcopy(mixing)
    with torch.inference_mode():  # as in a run
        weights = rule.weigh(mixing, _weights(rule, mixing))
        rule.mix(mixing, shares_of(weights.raw, mixing.present))
    return mixing, weights


def _state(mixing: Mixing) -> list[Tensor]:
    models = mixing.models
    return [models.dense, models.tables[0].value[models.tables[0].edges], *models.buffers.values()]


def aggregation_fulfils_its_protocol(rule: Aggregation) -> None:
    """Every part is there, with the right type and signature."""
    check_rule("aggregation", rule, Aggregation)


def aggregation_can_be_sent_to_another_process(rule: Aggregation) -> None:
    """A simulation in several processes pickles the rule."""
    expect_picklable(rule)


def weights_are_finite_and_not_negative(rule: Aggregation) -> None:
    """Raw weights [g, 1 + P] of 0 or more."""
    for seed in range(3):
        mixing = _mixing(seed)
        raw = rule.weigh(mixing, _weights(rule, mixing)).raw
        expect(raw.shape == mixing.records.shape, rule, f"weigh must return weights {tuple(mixing.records.shape)}")
        expect(bool(torch.isfinite(raw).all() and (raw >= 0).all()), rule, "weights must be finite and 0 or more")


def numbers_are_those_of_the_memory(rule: Aggregation) -> None:
    """What ``weigh`` returns can be kept until the next round."""
    mixing = _mixing(0)
    numbers = rule.weigh(mixing, _weights(rule, mixing)).numbers
    names = sorted(rule.memory.numbers)
    expect(sorted(numbers) == names, rule, f"weigh must return the numbers {names} that its memory names")
    for name, tensor in numbers.items():
        expect(tensor.shape == mixing.records.shape, rule, f"{name} must be {tuple(mixing.records.shape)}")
        expect(bool(torch.isfinite(tensor).all()), rule, f"{name} must be finite: it is kept in checkpoints")


def the_same_inputs_give_the_same_mix(rule: Aggregation) -> None:
    """Recovery after a crash replays rounds."""
    (one, _), (other, _) = _run(rule, _mixing(1)), _run(rule, _mixing(1))
    expect(all_close(_state(one), _state(other)), rule, "the same inputs must give the same mix")


def weighing_leaves_its_inputs_as_they_are(rule: Aggregation) -> None:
    """Only ``mix`` moves models, and nothing moves the models of peers."""
    mixing = _mixing(2)
    before, pool = [x.clone() for x in _state(mixing)], mixing.held.dense.clone()
    weights = _weights(rule, mixing)
    raw = weights.raw.clone()
    rule.weigh(mixing, weights)
    expect(all_close(before, _state(mixing)), rule, "weigh must not move models")
    expect(torch.equal(raw, weights.raw), rule, "weigh must not change the weights that it is given")
    expect(torch.equal(pool, mixing.held.dense), rule, "weigh must not change the models of peers")


def an_absent_peer_has_no_effect(rule: Aggregation) -> None:
    """A peer that did not answer takes no part, whatever its place in the pool holds."""
    clean, dirty = _mixing(3), _mixing(3)
    absent = dirty.held.index[~dirty.held.present]
    dirty.held.dense[absent], dirty.held.tables[0][absent] = 1e6, 1e6
    expect(
        all_close(_state(_run(rule, clean)[0]), _state(_run(rule, dirty)[0])),
        rule,
        "an absent peer must have no effect",
    )


def edges_do_not_influence_each_other(rule: Aggregation) -> None:
    """Several edges in one call give what each gives alone: a live edge is a stack of one."""
    together, whole = _run(rule, _mixing(4))
    for edge in range(EDGES):
        alone = _only(_mixing(4), edge)
        mixed, weights = _run(rule, alone)
        same = all_close([x[:1] for x in _state(mixed)], [x[edge : edge + 1] for x in _state(together)], 1e-9)
        expect(
            same and torch.allclose(weights.raw[0], whole.raw[edge], rtol=1e-9, atol=1e-9),
            rule,
            "an edge in a stack must get what it gets alone",
        )


def _only(mixing: Mixing, edge: int) -> Mixing:
    one, held = torch.tensor([edge]), mixing.held
    models = mixing.models.select(one).copy()
    for table in models.tables:
        table.storage = table.storage[:, one]
        table.edges = torch.tensor([0])
    part = HeldModels(held.dense, held.tables, held.has, held.statistics, held.index[one], held.present[one])
    batches = [batch[one] for batch in mixing.batches]
    known, wanted = [k[one] for k in mixing.known], [w[one] for w in mixing.wanted]
    return Mixing(models, part, mixing.records[one], batches, mixing.gradients, known, wanted)


def a_mix_of_equal_models_is_that_model(rule: Aggregation) -> None:
    """Mixing finds a value between the models, so equal models stay as they are."""
    before = _mixing(5, equal=True)
    after, _ = _run(rule, before)
    expect(all_close(_state(before)[:1], _state(after)[:1], 1e-9), rule, "a mix of equal models must be that model")


AGGREGATION_CHECKS: Final[tuple[Callable[[Aggregation], None], ...]] = (
    aggregation_fulfils_its_protocol,
    aggregation_can_be_sent_to_another_process,
    weights_are_finite_and_not_negative,
    numbers_are_those_of_the_memory,
    the_same_inputs_give_the_same_mix,
    weighing_leaves_its_inputs_as_they_are,
    an_absent_peer_has_no_effect,
    edges_do_not_influence_each_other,
    a_mix_of_equal_models_is_that_model,
)


def check_aggregation(rule: Aggregation) -> None:
    """Run all checks of an aggregation rule; ``RuleError`` at the first that fails."""
    run_checks(AGGREGATION_CHECKS, rule)
