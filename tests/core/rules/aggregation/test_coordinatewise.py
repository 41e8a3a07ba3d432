"""``Mixing.coordinatewise``: each number is combined over the models that have it, and over no others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing

from ....own_rules import Median
from ...mixes import KINDS, AsWeighed, MixCase, in_a_stack, mix_case
from ...test_aggregation import Statistics, with_statistics


def _lower_median(values: list[np.ndarray]) -> np.ndarray:
    """Number by number; of an even count the lower of the two in the middle, as torch has it."""
    found: np.ndarray = np.quantile(np.stack(values), 0.5, axis=0, method="lower")
    return found


def _numpy_median(case: MixCase, wanted: list[Tensor]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Dense parts and tables after the mix, edge by edge and row by row."""
    dense, tables = case.models.dense.numpy().copy(), [t.value.numpy().copy() for t in case.models.tables]
    for e in range(len(dense)):
        there = [int(j) for j, answered in zip(case.held.index[e], case.held.present[e], strict=True) if answered]
        dense[e] = _lower_median([dense[e], *(case.held.dense[j].numpy() for j in there)])
        for t, table in enumerate(tables):
            for row in range(table.shape[1]):
                theirs = [case.held.tables[t][j, row].numpy() for j in there if case.held.has[t][j, row]]
                if theirs and case.known[t][e, row]:
                    table[e, row] = _lower_median([table[e, row], *theirs])
                elif theirs and wanted and wanted[t][e, row]:
                    table[e, row] = _lower_median(theirs)
    return dense, tables


@pytest.mark.parametrize("adopting", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_median_is_the_one_that_numpy_computes_number_by_number(kind: str, adopting: bool) -> None:
    for seed in range(3):
        case = mix_case(kind, seed=seed)
        wanted = [torch.rand(k.shape) < 0.5 for k in case.known] if adopting else []
        models, _ = case.mix(Median(), wanted=wanted)
        dense, tables = _numpy_median(case, wanted)
        np.testing.assert_allclose(models.dense.numpy(), dense, rtol=1e-12, atol=1e-12)
        for table, expected in zip(models.tables, tables, strict=True):
            np.testing.assert_allclose(table.value.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_a_row_that_a_peer_has_never_trained_is_combined_without_it() -> None:
    case = mix_case("deepfm", edges=1, peers=3)
    case.held.present[:] = True
    case.held.index[:] = torch.tensor([[0, 1, 2]])
    case.known[0][0, :3] = True
    case.held.has[0][:3, 0] = torch.tensor([True, True, False])
    case.held.has[0][:3, 1] = torch.tensor([False, False, False])
    pool, own = case.held.tables[0], case.models.tables[0].value[0]
    pool[:, 0], own[0] = torch.tensor([1.0, 5.0, 99.0, 99.0, 99.0])[:, None].double(), 3.0
    models, _ = case.mix(Median())
    torch.testing.assert_close(models.tables[0].value[0, 0], torch.full_like(own[0], 3.0))
    assert torch.equal(models.tables[0].value[0, 1], own[1]), "a row that no peer has keeps the own value"


def test_a_wanted_row_is_adopted_from_the_peers_that_know_it_alone() -> None:
    case = mix_case("deepfm", edges=1, peers=3)
    case.held.present[:] = True
    case.held.index[:] = torch.tensor([[0, 1, 2]])
    case.known[0][0, :2] = False
    case.held.has[0][:3, :2] = torch.tensor([[True], [False], [True]])
    case.held.tables[0][:3, :2] = torch.tensor([1.0, 99.0, 5.0])[:, None, None].double()
    wanted = [torch.zeros_like(k) for k in case.known]
    wanted[0][0, 0] = True
    models, _ = case.mix(Median(), wanted=wanted)
    before, after = case.models.tables[0].value[0], models.tables[0].value[0]
    torch.testing.assert_close(after[0], torch.ones_like(after[0]))
    assert torch.equal(after[1], before[1]), "a row that is neither known nor wanted stays"


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_peer_has_no_effect_even_if_its_model_is_broken(kind: str) -> None:
    case = mix_case(kind)
    case.held.index[:] = torch.tensor([0, 1, 2, 3])
    case.held.present[:] = torch.tensor([True, False, True, False])
    clean, _ = case.mix(Median())
    for broken in (1, 3):
        case.held.dense[broken] = torch.nan
        for table, has in zip(case.held.tables, case.held.has, strict=True):
            table[broken], has[broken] = torch.nan, True
    dirty, _ = case.mix(Median())
    assert torch.equal(clean.dense, dirty.dense)
    for a, b in zip(clean.tables, dirty.tables, strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("name", ["mean", "scale", "matrix"])
def test_statistics_are_combined_like_parameters(name: str) -> None:
    case = with_statistics(Statistics)
    models, _ = case.mix(Median())
    own, pool = case.models.buffers[name], case.held.statistics[name]
    three = torch.stack([own[0], pool[0], pool[1]])
    torch.testing.assert_close(models.buffers[name][0], three.median(0).values)
    torch.testing.assert_close(models.buffers[name][1], torch.minimum(own[1], pool[2]))
    assert models.buffers[name].shape == own.shape
    assert torch.equal(models.buffers["count"], case.models.buffers["count"])


def test_statistics_stay_local_unless_they_are_held() -> None:
    case = with_statistics(Statistics)
    models, _ = case._replace(held=replace(case.held, statistics={})).mix(Median())
    assert all(torch.equal(buffer, case.models.buffers[name]) for name, buffer in models.buffers.items())


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_each_number_is_the_weighted_mean_with_equal_weights(kind: str) -> None:
    """Except in rows that some peers lack: there the weighted mean gives their shares to the own value."""

    class Mean(AsWeighed):
        def mix(self, mixing: Mixing, shares: Tensor) -> None:
            mixing.coordinatewise(lambda values: values.nanmean(1))

    case = mix_case(kind)
    for has in case.held.has:
        has[:, :-1] = True
    one, _ = case.mix(Mean())
    two, _ = case.mix(AsWeighed())
    torch.testing.assert_close(one.dense, two.dense, rtol=1e-12, atol=1e-12)
    for a, b in zip(one.tables, two.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=1e-12, atol=1e-12)


def test_edges_combine_in_the_stack_without_touching_the_others() -> None:
    case = mix_case("two tables")
    whole, part, others = in_a_stack(case)
    expected, _ = case.mix(Median())
    case.mix(Median(), into=part)
    assert torch.equal(part.dense, expected.dense)
    for mine, table, other in zip(whole.tables, expected.tables, others, strict=True):
        assert torch.equal(mine.value[[4, 1, 2]], table.value)
        assert torch.equal(mine.value[[0, 3, 5]], other)
