"""FedFomo: weights by loss drop over distance."""

import pytest
import torch

from alphaedge.core.rules.aggregation.rivals.fedfomo import FedFomo

from ....mixes import mix_case
from .line import line, mixed


def test_by_hand_a_peer_weighs_its_loss_drop_over_its_distance() -> None:
    # Label 2: the own loss is 4, the peers' 1, 0 and 9. Drops 3, 4, 0 over distances 1, 2, 5: 3, 2, 0; of 5: 0.6, 0.4.
    value, raw = mixed(FedFomo(own=0.0), line(0.0, 1.0, 2.0, 5.0))
    assert raw == pytest.approx([0.0, 0.6, 0.4, 0.0])
    assert value == pytest.approx(0.6 * 1 + 0.4 * 2)


def test_the_own_model_keeps_its_share() -> None:
    value, raw = mixed(FedFomo(own=0.5), line(0.0, 1.0, 2.0, 5.0))
    assert raw == pytest.approx([0.5, 0.3, 0.2, 0.0])
    assert value == pytest.approx(0.7)


def test_where_no_peer_is_better_the_own_model_stays() -> None:
    value, raw = mixed(FedFomo(own=0.0), line(2.0, 1.0, 5.0))
    assert raw == [1, 0, 0]
    assert value == 2.0


def test_weights_are_those_written_out_for_a_model_with_rows() -> None:
    case = mix_case("two tables", edges=1, peers=3)
    case.held.present[:] = True
    _, after = case.mix(FedFomo(own=0.0))
    mixing = case.mixing()
    (objective,) = mixing.objectives
    distance = sum(x.square().sum(2) for x in objective.differences)[0].sqrt()
    own, *theirs = (float(case.loss(0, row)) for row in torch.eye(4).double())
    gains = [max(0.0, own - loss) / float(d) for loss, d in zip(theirs, distance, strict=True)]
    assert sum(gains) > 0, "the case shows nothing"
    assert after.raw[0, 1:].tolist() == pytest.approx([gain / sum(gains) for gain in gains])
