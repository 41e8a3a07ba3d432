"""FedAvg's weights: what each model has learned from."""

import torch

from alphaedge.core.rules.aggregation.by_records import ByRecords

from ...mixes import mix_case


def test_each_model_weighs_its_records() -> None:
    case, records = mix_case("deepfm"), torch.randint(0, 900, (3, 5)).double()
    _, after = case.mix(ByRecords(), torch.rand(3, 5).double(), records=records)
    assert torch.equal(after.raw, records)


def test_a_model_that_has_learned_from_three_times_as_much_counts_three_times() -> None:
    case = mix_case("mlp", edges=1, peers=1)
    models, _ = case.mix(ByRecords(), records=torch.tensor([[100.0, 300.0]]).double())
    peer = case.held.dense[case.held.index[0, 0]]
    torch.testing.assert_close(models.dense[0], 0.25 * case.models.dense[0] + 0.75 * peer)
