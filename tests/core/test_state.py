"""Stacked state is the state of its edges, and a part of it is theirs."""

import pytest
import torch

from alphaedge.core.state import ModelState

from .zoo import ZOO


def _state(edges: int = 4) -> ModelState:
    models = [ZOO["two tables"].model() for _ in range(2)]
    return ModelState.start(models, [e % 2 for e in range(edges)])


def test_each_edge_starts_from_the_model_it_was_given() -> None:
    models = [ZOO["two tables"].model() for _ in range(3)]
    state = ModelState.start(models, [2, 0, 0, 1])
    assert len(state) == 4
    for edge, which in enumerate([2, 0, 0, 1]):
        assert torch.equal(state.dense[edge], models[which].initial_dense())
        for t, table in enumerate(state.tables):
            assert torch.equal(table.value[edge, :-1], models[which].initial_table(t))
            assert table.scratch == models[which].tables[t].rows
            assert table.value[edge, table.scratch].abs().sum() == 0
    assert state.steps.tolist() == [0] * 4
    assert state.dense_m.abs().sum() == state.dense_v.abs().sum() == 0


def test_edges_that_start_from_one_model_do_not_share_memory() -> None:
    state = _state()
    state.dense[0] += 1
    state.tables[0].value[0] += 1
    assert not torch.equal(state.dense[0], state.dense[2])
    assert not torch.equal(state.tables[0].value[0], state.tables[0].value[2])


def test_buffers_are_stacked_too() -> None:
    models = [ZOO["batch norm"].model() for _ in range(2)]
    models[1].module[1].running_mean += 3
    state = ModelState.start(models, [0, 1, 1])
    assert state.buffers["1.running_mean"][:, 0].tolist() == [0, 3, 3]
    assert state.buffers["1.num_batches_tracked"].shape == (3,)


def test_starting_does_not_tie_the_state_to_the_module() -> None:
    model = ZOO["batch norm"].model()
    state = ModelState.start([model], [0])
    state.dense += 1
    state.buffers["1.running_mean"] += 1
    assert torch.equal(model.initial_dense(), state.dense[0] - 1)
    assert model.module[1].running_mean.abs().sum() == 0


def test_rows_are_gathered_and_scattered_by_edge_and_row() -> None:
    state = _state()
    part = state.select(torch.tensor([3, 1]))
    table = part.tables[0]
    rows = torch.tensor([[0, 5, 2], [6, 5, 4]])
    flat = table.flat(rows)
    found = table.take(flat)
    assert torch.equal(table.gather(flat), found[0])
    for i, edge in enumerate([3, 1]):
        assert torch.equal(found[:, i], state.tables[0].storage[:, edge, rows[i]])
    table.put(flat, found + 1)
    assert torch.equal(state.tables[0].storage[:, 3, 5], found[:, 0, 1] + 1)
    assert torch.equal(table.take(flat), found + 1)


def test_rows_of_a_half_are_those_of_the_whole() -> None:
    state = _state()
    _, second = state.halves()
    table, rows = second.tables[0], torch.tensor([[1], [4]])
    flat = table.flat(rows)
    table.put(flat, table.take(flat) + 1)
    assert torch.equal(state.tables[0].storage[:, 3, 4], table.take(flat)[:, 1, 0])


def test_only_the_named_rows_are_copied_from_another_state() -> None:
    state, other = _state(), _state()
    other.tables[0].storage += 1
    before = state.tables[0].storage.clone()
    rows = [torch.full((2, 1), 3) for _ in state.tables]
    state.copy_edges(torch.tensor([2, 0]), other, rows)
    changed = (state.tables[0].storage != before).any(-1).nonzero()
    assert {tuple(place) for place in changed.tolist()} == {(part, edge, 3) for part in range(3) for edge in (0, 2)}


def test_a_part_reads_and_writes_only_its_own_edges() -> None:
    state = _state()
    before = [state.dense.clone(), state.tables[0].value.clone()]
    edges = torch.tensor([2, 0])
    part = state.select(edges)
    part.dense += 1
    part.steps += 5
    assert torch.equal(state.dense, before[0]), "a part's dense state is a copy until it is written back"
    state.write(edges, part)
    assert torch.equal(state.dense[[2, 0]], before[0][[2, 0]] + 1)
    assert torch.equal(state.dense[[1, 3]], before[0][[1, 3]])
    assert state.steps.tolist() == [5, 0, 5, 0]


def test_a_part_of_a_part_names_the_right_rows() -> None:
    state = _state()
    part = state.select(torch.tensor([3, 1, 0])).select(torch.tensor([2, 0]))
    assert part.tables[0].edges.tolist() == [0, 3]
    flat = part.tables[0].flat(torch.tensor([[1], [2]]))
    found = part.tables[0].gather(flat)
    assert torch.equal(found[0, 0], state.tables[0].value[0, 1])
    assert torch.equal(found[1, 0], state.tables[0].value[3, 2])


@pytest.mark.parametrize("kind", ["mlp", "batch norm", "deepfm"])
def test_writing_a_part_back_unchanged_changes_nothing(kind: str) -> None:
    state = ModelState.start([ZOO[kind].model()], [0, 0, 0])
    kept = [state.dense.clone(), *(b.clone() for b in state.buffers.values())]
    edges = torch.tensor([1, 2])
    state.write(edges, state.select(edges))
    assert all(torch.equal(a, b) for a, b in zip(kept, [state.dense, *state.buffers.values()], strict=True))
