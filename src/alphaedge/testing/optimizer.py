"""Checks of optimizers, on small stacks of models."""

from collections.abc import Callable
from typing import Final

import torch

from alphaedge.core.optimizer import Optimizer
from alphaedge.core.rule_check import check_rule
from alphaedge.testing.expectations import expect, expect_picklable, run_checks


def optimizer_fulfils_its_protocol(rule: Optimizer) -> None:
    """Every part is there, with the right type and signature."""
    check_rule("optimizer", rule, Optimizer)


def optimizer_can_be_sent_to_another_process(rule: Optimizer) -> None:
    """A simulation in several processes pickles the rule."""
    expect_picklable(rule)


def models_do_not_influence_each_other(rule: Optimizer) -> None:
    """Stacked models with different step counts move as each moves alone."""
    gradient = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    value, steps = torch.ones(3, 4), torch.tensor([1, 5, 9])
    together = value.clone()
    rule.update(together, torch.zeros(3, 4), torch.ones(3, 4), gradient.clone(), steps)
    for k in range(3):
        alone, m, v = value[k : k + 1].clone(), torch.zeros(1, 4), torch.ones(1, 4)
        rule.update(alone, m, v, gradient[k : k + 1].clone(), steps[k : k + 1])
        expect(torch.allclose(alone[0], together[k], atol=1e-6), rule, "a model in a stack must move as it does alone")


def a_step_moves_against_the_gradient(rule: Optimizer) -> None:
    """From a fresh state every number with a gradient moves, and moves down the slope."""
    value, gradient = torch.zeros(1, 6), torch.tensor([[1.0, -1.0, 2.0, -0.5, 0.1, -3.0]])
    rule.update(value, torch.zeros(1, 6), torch.zeros(1, 6), gradient.clone(), torch.tensor([1]))
    expect(bool((value * gradient < 0).all()), rule, "a first step must go against the gradient")


OPTIMIZER_CHECKS: Final[tuple[Callable[[Optimizer], None], ...]] = (
    optimizer_fulfils_its_protocol,
    optimizer_can_be_sent_to_another_process,
    models_do_not_influence_each_other,
    a_step_moves_against_the_gradient,
)


def check_optimizer(rule: Optimizer) -> None:
    """Run all checks of an optimizer; ``RuleError`` at the first that fails."""
    run_checks(OPTIMIZER_CHECKS, rule)
