"""FedAvg's weights: what each model has learned from."""

import torch

from alphaedge.core.rules.aggregation.by_records import ByRecords

from ...mixes import mix_case


def test_each_model_weighs_its_records_and_an_absent_peer_keeps_its_weight() -> None:
    case, records = mix_case("deepfm"), torch.randint(0, 900, (3, 5)).double()
    before = torch.rand(3, 5).double()
    _, after = case.mix(ByRecords(), before.clone(), records=records)
    assert not case.held.present.all()
    assert torch.equal(after.raw[:, 0], records[:, 0])
    assert torch.equal(after.raw[:, 1:], torch.where(case.held.present, records[:, 1:], before[:, 1:]))


def test_a_model_that_has_learned_from_three_times_as_much_counts_three_times() -> None:
    case = mix_case("mlp", edges=1, peers=1)
    models, _ = case.mix(ByRecords(), records=torch.tensor([[100.0, 300.0]]).double())
    peer = case.held.dense[case.held.index[0, 0]]
    torch.testing.assert_close(models.dense[0], 0.25 * case.models.dense[0] + 0.75 * peer)
