"""Renumbered ids lead back to the ids."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.model import TableLayout


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


def test_parts_of_stacked_batches_are_those_batches() -> None:
    whole = Batch((torch.arange(12).view(4, 3), torch.randn(4, 2)), (torch.arange(8).view(4, 2),), torch.randn(4, 3))
    parts = whole.split([1, 0, 3])
    assert [len(part.labels) for part in parts] == [1, 0, 3]
    for part, places in zip(parts, ([0], [], [1, 2, 3]), strict=True):
        expected = whole[torch.tensor(places, dtype=torch.long)]
        assert all(map(torch.equal, part.inputs, expected.inputs))
        assert all(map(torch.equal, part.rows, expected.rows))
        assert torch.equal(part.labels, expected.labels)
