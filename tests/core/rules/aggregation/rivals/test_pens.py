"""PENS: the peers whose models lose least."""

import pytest
import torch

from alphaedge.core.rules.aggregation.rivals.pens import Pens
from alphaedge.errors import InvalidValue

from ....mixes import mix_case
from .line import line, mixed


def test_by_hand_the_two_peers_with_the_smallest_squared_errors_are_averaged_with_the_own_model() -> None:
    # Losses for label 2: 1, 9, 0.25 of the peers.
    value, raw = mixed(Pens(kept=2), line(0.0, 1.0, 5.0, 2.5))
    assert raw == [1, 1, 0, 1]
    assert value == pytest.approx((0 + 1 + 2.5) / 3)


def test_the_best_of_those_that_answered_is_kept_and_an_absent_one_keeps_its_weight() -> None:
    value, raw = mixed(Pens(kept=1), line(0.0, 1.0, 5.0, 2.0, present=[True, True, False]))
    assert raw == [1, 1, 0, 1]
    assert value == pytest.approx(0.5)


def test_models_are_ranked_by_the_loss_that_plain_autograd_finds() -> None:
    case = mix_case("deepfm", edges=2, peers=4)
    case.held.present[:] = True
    _, after = case.mix(Pens(kept=2))
    for edge in range(2):
        losses = [float(case.loss(edge, torch.eye(5).double()[1 + p])) for p in range(4)]
        best = sorted(range(4), key=losses.__getitem__)[:2]
        assert after.raw[edge].tolist() == [1.0, *(float(p in best) for p in range(4))]


def test_keeping_nobody_is_refused() -> None:
    with pytest.raises(InvalidValue, match="kept"):
        Pens(kept=0)
