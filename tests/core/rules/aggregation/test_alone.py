"""No aggregation."""

import torch

from alphaedge.core.rules.aggregation.alone import Alone

from ...mixes import mix_case


def test_an_edge_on_its_own_keeps_its_model_and_its_weights() -> None:
    case, raw = mix_case("two tables"), torch.rand(3, 5).double()
    models, after = case.mix(Alone(), raw)
    assert not Alone().uses_peers
    assert torch.equal(after.raw, raw)
    assert torch.equal(models.dense, case.models.dense)
    assert all(torch.equal(a.value, b.value) for a, b in zip(models.tables, case.models.tables, strict=True))
