"""The plain mean."""

import torch

from alphaedge.core.rules.aggregation.uniform import Uniform

from ...mixes import mix_case


def test_every_model_weighs_the_same_whatever_it_has_learned_from() -> None:
    case = mix_case("deepfm")
    _, after = case.mix(Uniform(), torch.rand(3, 5).double(), records=torch.rand(3, 5).double())
    assert torch.equal(after.raw, case.ones())


def test_the_mix_is_the_plain_mean_of_those_that_take_part() -> None:
    case = mix_case("mlp", edges=1, peers=3)
    case.held.present[:] = torch.tensor([[True, False, True]])
    models, _ = case.mix(Uniform())
    peers = case.held.dense[case.held.index[0, [0, 2]]]
    torch.testing.assert_close(models.dense[0], (case.models.dense[0] + peers.sum(0)) / 3)
