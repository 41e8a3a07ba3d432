"""Renumbered ids lead back to the ids."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.gradients import OneAtATime, Stacked
from alphaedge.core.model import TableLayout

from .zoo import ZOO, batch_of


def _table(rows: int, *fields: int) -> TableLayout:
    return TableLayout("ids", fields, (), rows, 1)


@st.composite
def _ids(draw: st.DrawFn) -> tuple[list[Tensor], list[TableLayout]]:
    """Five fields: [B] and [B, 3] ids of table 0, [B] and [B, 2] ids of table 1, and numbers."""
    batches, size, seed = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(0, 999))
    rows = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    g = torch.Generator().manual_seed(seed)
    inputs = [
        torch.randint(0, rows[0], (batches, size), generator=g),
        torch.randint(0, rows[1], (batches, size, 2), generator=g),
        torch.randn(batches, size, 4, generator=g),
        torch.randint(0, rows[0], (batches, size, 3), generator=g),
        torch.randint(0, rows[1], (batches, size), generator=g),
    ]
    return inputs, [_table(rows[0], 0, 3), _table(rows[1], 4, 1)]


@given(_ids())
def test_looking_up_the_places_gives_back_the_ids(case: tuple[list[Tensor], list[TableLayout]]) -> None:
    inputs, tables = case
    places, rows = compact(inputs, tables)
    for table, named in zip(tables, rows, strict=True):
        for f in table.fields:
            assert places[f].shape == inputs[f].shape
            for t in range(len(named)):
                assert torch.equal(named[t][places[f][t]], inputs[f][t])


@given(_ids())
def test_each_row_is_named_once_and_unused_places_are_scratch(
    case: tuple[list[Tensor], list[TableLayout]],
) -> None:
    inputs, tables = case
    _, rows = compact(inputs, tables)
    for table, named in zip(tables, rows, strict=True):
        for t in range(len(named)):
            ids = {int(i) for f in table.fields for i in inputs[f][t].flatten()}
            assert named[t].tolist() == sorted(ids) + [table.rows] * (named.shape[1] - len(ids))


@given(_ids())
def test_the_number_of_places_depends_on_shapes_alone(case: tuple[list[Tensor], list[TableLayout]]) -> None:
    inputs, tables = case
    _, rows = compact(inputs, tables)
    for table, named in zip(tables, rows, strict=True):
        entries = sum(inputs[f][0].numel() for f in table.fields)
        assert named.shape == (len(inputs[0]), entries)
        assert named.dtype == torch.long


def test_other_fields_pass_through_and_nothing_is_changed_in_place() -> None:
    inputs = [torch.tensor([[5, 2, 5]]), torch.randn(1, 3, 2)]
    kept = [x.clone() for x in inputs]
    places, rows = compact(inputs, [_table(9, 0)])
    assert places[1] is inputs[1]
    assert torch.equal(inputs[0], kept[0])
    assert places[0].tolist() == [[1, 0, 1]]
    assert rows[0].tolist() == [[2, 5, 9]]


def test_a_model_without_id_tables_has_no_rows() -> None:
    inputs = [torch.randn(2, 3)]
    places, rows = compact(inputs, [])
    assert places == inputs
    assert rows == []


def test_some_batches_of_many_can_be_picked() -> None:
    batch = Batch((torch.arange(12).view(4, 3),), (torch.arange(8).view(4, 2),), torch.arange(4).view(4, 1))
    some = batch[torch.tensor([3, 0])]
    assert some.inputs[0].tolist() == [[9, 10, 11], [0, 1, 2]]
    assert some.rows[0].tolist() == [[6, 7], [0, 1]]
    assert some.labels.tolist() == [[3], [0]]


@pytest.mark.parametrize("kind", ["mlp", "deepfm", "two tables"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_joined_batches_have_the_outputs_and_the_mean_loss_of_the_single_ones(kind: str, count: int) -> None:
    model = ZOO[kind].model()
    edges, size = 3, 5
    labels = torch.randint(0, 2, (edges * count, size)).double()
    batch = batch_of(ZOO[kind].inputs(edges * count, size), labels, model)
    joined = batch.joined(count, model.tables)
    assert joined.labels.shape == (edges, count * size)
    dense = model.initial_dense() + 0.3 * torch.randn(edges, model.dense_size).double()
    tables = [torch.randn(edges, t.rows + 1, t.width).double() for t in model.tables]

    def rows(of: Batch, edge: Tensor) -> list[Tensor]:
        return [t[edge[:, None], r] for t, r in zip(tables, of.rows, strict=True)]

    whole = Stacked(model).gradient(dense, rows(joined, torch.arange(edges)), {}, joined.inputs, joined.labels)
    edge_of = torch.arange(edges).repeat_interleave(count)
    single = OneAtATime(model).gradient(dense[edge_of], rows(batch, edge_of), {}, batch.inputs, batch.labels)
    torch.testing.assert_close(whole.outputs, single.outputs.view(edges, -1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(whole.losses, single.losses.view(edges, count).mean(1), rtol=1e-10, atol=1e-10)
    mean_slope = single.dense.view(edges, count, -1).mean(1)
    torch.testing.assert_close(whole.dense, mean_slope, rtol=1e-9, atol=1e-12)
    for by_rows, by_single, table, named in zip(whole.rows, single.rows, tables, joined.rows, strict=True):
        # a row may be named in several of the batches: its slopes add up
        total, expected = torch.zeros_like(table), torch.zeros_like(table)
        for e in range(edges):
            total[e].index_add_(0, named[e], by_rows[e])
            expected[e].index_add_(0, named[e], by_single.view(edges, -1, table.shape[2])[e] / count)
        torch.testing.assert_close(total[:, :-1], expected[:, :-1], rtol=1e-9, atol=1e-12)


def test_joining_keeps_the_order_of_time_within_each_edge() -> None:
    batch = Batch((torch.arange(12).view(6, 2),), (), torch.arange(12).view(6, 2))
    joined = batch.joined(3, ())
    assert joined.labels.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert torch.equal(joined.inputs[0], joined.labels)
