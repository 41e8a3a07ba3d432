"""What no rival does: spread a broken model, or leave inference mode."""

from typing import Any

import pytest
import torch

from alphaedge.core.aggregation import Aggregation
from alphaedge.core.methods import RIVALS, method
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.rivals.intact import among_intact

from ....mixes import KINDS, mix_case

RULES = list({repr(rule): rule for rule in (method(name).aggregation for name in RIVALS)}.values())
OWN = [rule for rule in RULES if not isinstance(rule, ByRecords)]  # FedAvg's mean is as the paper's rivals have it


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", OWN, ids=repr)
def test_a_model_with_numbers_that_are_not_finite_does_not_spread(rule: Aggregation, kind: str, number: float) -> None:
    case = mix_case(kind, edges=2, peers=4)
    case.held.index[:], case.held.present[:] = torch.arange(4), True
    case.held.dense[1, 0] = case.held.dense[2, -1] = number
    for table, has in zip(case.held.tables, case.held.has, strict=True):
        has[3, 0], table[3, 0] = True, number
    with torch.inference_mode():
        models, after = case.mix(rule)
    assert torch.isfinite(after.raw).all()
    assert all(torch.isfinite(x).all() for x in after.numbers.values())
    assert torch.isfinite(models.dense).all()
    assert all(torch.isfinite(table.value).all() for table in models.tables)


def test_a_broken_model_takes_no_part_and_an_intact_one_is_left_alone() -> None:
    case = mix_case("deepfm", edges=1, peers=3)
    case.held.index[:], case.held.present[:] = torch.arange(3), True
    mixing = case.mixing()
    assert among_intact(mixing) is mixing
    case.held.tables[0][1, 0] = torch.nan
    left = among_intact(mixing)
    assert left.present.tolist() == [[True, False, True]]
    assert torch.equal(left.held.dense[2], case.held.dense[2])


@pytest.mark.parametrize("rule", OWN, ids=repr)
def test_rules_are_values(rule: Any) -> None:
    assert rule == type(rule)(**vars(rule))
    assert hash(rule) == hash(type(rule)(**vars(rule)))
