"""Ditto's pull towards the others' mean."""

from dataclasses import replace

import pytest
import torch

from alphaedge.core.rules.aggregation.rivals.proximal import Proximal
from alphaedge.errors import InvalidValue

from .line import line, mixed


def test_by_hand_the_own_model_moves_a_tenth_of_the_way_to_the_mean_by_records() -> None:
    mixing = replace(line(1.0, 2.0, 6.0), records=torch.tensor([[500.0, 300.0, 100.0]], dtype=torch.float64))
    value, raw = mixed(Proximal(pull=0.1), mixing)
    assert raw == pytest.approx([0.9, 0.075, 0.025])
    assert value == pytest.approx(1 + 0.1 * (3 - 1))


def test_one_that_is_absent_leaves_the_pull_to_the_others() -> None:
    value, _ = mixed(Proximal(pull=0.1), line(1.0, 2.0, 6.0, present=[True, False]))
    assert value == pytest.approx(1.1)


def test_peers_that_have_learned_nothing_pull_nobody() -> None:
    mixing = replace(line(1.0, 2.0), records=torch.tensor([[5.0, 0.0]], dtype=torch.float64))
    assert mixed(Proximal(), mixing)[0] == 1.0


@pytest.mark.parametrize("pull", [0, 1])
def test_no_pull_and_a_pull_all_the_way_are_refused(pull: float) -> None:
    with pytest.raises(InvalidValue, match="pull"):
        Proximal(pull=pull)
