"""What others may pull: only rows that were trained since change, and old generations stay as they were."""

import pytest
import torch

from alphaedge.core.state import ModelState
from alphaedge.simulation.publications import Publications

from .fleets import factors, normalised

EDGES = 3


def models() -> ModelState:
    return ModelState.start([factors(4, 6)], [0] * EDGES)


def nothing_trained(some: ModelState) -> list[torch.Tensor]:
    return [torch.zeros(t.value.shape[:2], dtype=torch.bool) for t in some.tables]


def move(some: ModelState, by: float) -> None:
    """Change every number of every edge."""
    some.dense += by
    for table in some.tables:
        table.value.add_(by)


def test_the_first_generation_is_the_initial_model() -> None:
    some = models()
    found = Publications(some, 2, (), [t.width for t in some.tables])
    place = found.places(torch.arange(EDGES), found.number)
    assert torch.equal(found.all_dense[place], some.dense)
    assert all(int(v.max()) == 0 for v in found.version)


def test_only_rows_trained_since_the_last_publication_change() -> None:
    some = models()
    found = Publications(some, 1, (), [t.width for t in some.tables])
    before = [t.clone() for t in found.tables]
    trained = nothing_trained(some)
    trained[1][2, [0, 4]] = True
    move(some, 1.0)
    found.publish(torch.tensor([2]), some, trained, torch.tensor([0, 0, 70]))
    assert torch.equal(found.dense[0, 2], some.dense[2])
    assert torch.equal(found.tables[0], before[0])
    expected = before[1].clone()
    expected[0, 2, [0, 4]] = some.tables[1].value[2, [0, 4]]
    assert torch.equal(found.tables[1], expected)
    assert found.version[1][0, 2].tolist() == [1, 0, 0, 0, 1, 0, 0]
    assert found.records[0].tolist() == [0, 0, 70]


def test_an_edge_that_does_not_publish_stays_as_it_was() -> None:
    some = models()
    found = Publications(some, 1, (), [t.width for t in some.tables])
    before = [t.clone() for t in (found.dense, *found.tables)]
    trained = [torch.ones_like(flags) for flags in nothing_trained(some)]
    move(some, 1.0)
    found.publish(torch.tensor([1]), some, trained, torch.ones(EDGES, dtype=torch.long))
    assert found.number.tolist() == [0, 1, 0]
    for now, then in zip((found.dense, *found.tables), before, strict=True):
        assert torch.equal(now[:, [0, 2]], then[:, [0, 2]])
        assert not torch.equal(now[:, 1], then[:, 1])


def test_a_row_that_only_mixing_moved_is_published_as_it_was_trained() -> None:
    some = models()
    found = Publications(some, 1, (), [t.width for t in some.tables])
    trained = nothing_trained(some)
    trained[1][0, 3] = True
    edge, records = torch.tensor([0]), torch.ones(EDGES, dtype=torch.long)
    move(some, 1.0)
    found.publish(edge, some, trained, records)
    as_trained = found.tables[1][0, 0, 3].clone()
    move(some, 5.0)  # a mix
    found.publish(edge, some, nothing_trained(some), records)
    assert torch.equal(found.tables[1][0, 0, 3], as_trained)
    assert int(found.version[1][0, 0, 3]) == 1


def test_older_generations_can_be_read_as_they_were() -> None:
    some = models()
    depth = 3
    found = Publications(some, depth, (), [t.width for t in some.tables])
    edge, records = torch.tensor([1]), torch.ones(EDGES, dtype=torch.long)
    dense, rows = [some.dense[1].clone()], [found.tables[1][0, 1].clone()]
    for generation in range(1, 8):
        trained = nothing_trained(some)
        trained[1][1, generation % 6] = True
        move(some, 1.0)
        found.publish(edge, some, trained, records * generation)
        row = rows[-1].clone()
        row[generation % 6] = some.tables[1].value[1, generation % 6]
        dense.append(some.dense[1].clone())
        rows.append(row)
        for staleness in range(depth):
            number = max(0, generation - staleness)
            place = found.places(edge, torch.tensor([number]))[0]
            assert torch.equal(found.all_dense[place], dense[number])
            assert torch.equal(found.all_tables[1][place], rows[number])
            assert int(found.all_records[place]) == number


def test_edges_in_different_generations_publish_together() -> None:
    some = models()
    initial = some.dense.clone()
    found = Publications(some, 2, (), [t.width for t in some.tables])
    none, records = nothing_trained(some), torch.ones(EDGES, dtype=torch.long)
    found.publish(torch.tensor([0]), some, none, records)
    move(some, 1.0)
    found.publish(torch.tensor([0, 2]), some, none, records)
    assert found.number.tolist() == [2, 0, 1]
    now = found.all_dense[found.places(torch.arange(EDGES), found.number)]
    assert torch.equal(now[[0, 2]], some.dense[[0, 2]])
    assert torch.equal(now[1], initial[1])


def test_a_newcomer_starts_from_the_named_publications_of_others() -> None:
    some = models()
    found = Publications(some, 2, (), [t.width for t in some.tables])
    for _ in range(3):
        trained = [torch.ones_like(flags) for flags in nothing_trained(some)]
        move(some, 1.0)
        found.publish(torch.tensor([0]), some, trained, torch.ones(EDGES, dtype=torch.long))
    published = some.copy()
    move(some, 7.0)
    every_row = [torch.arange(t.value.shape[1]).view(1, 1, -1) for t in some.tables]
    found.give([int(found.places(torch.tensor(0), torch.tensor(3)))], every_row, some, 2)
    assert torch.equal(some.dense[2], published.dense[0])
    for mine, theirs in zip(some.tables, published.tables, strict=True):
        assert torch.equal(mine.value[2], theirs.value[0])
    assert torch.equal(some.dense[1], published.dense[1] + 7)


def test_running_statistics_are_published_where_they_are_mixed() -> None:
    model = normalised()
    some = ModelState.start([model], [0] * EDGES)
    found = Publications(some, 2, model.statistics(), [t.width for t in some.tables])
    assert set(found.statistics) == {"layers.1.running_mean", "layers.1.running_var"}
    some.buffers["layers.1.running_mean"] += 3
    found.publish(torch.tensor([1]), some, [], torch.ones(EDGES, dtype=torch.long))
    pool = found.statistics["layers.1.running_mean"]
    assert torch.equal(pool[1, 1], some.buffers["layers.1.running_mean"][1])
    assert torch.equal(pool[1, 0], torch.zeros(6))


def test_what_stays_below_the_threshold_is_published_once_it_has_added_up() -> None:
    some = models()
    found = Publications(some, 2, (), [t.width for t in some.tables], 0, "full", 0.5)
    trained = [torch.ones_like(flags) for flags in nothing_trained(some)]
    records = torch.ones(EDGES, dtype=torch.long)
    edge, row = torch.tensor([0]), some.tables[1].value[0, 2]
    row[:] = torch.tensor([3.0, 0.0, 4.0])
    found.publish(edge, some, trained, records)
    assert not trained[1][0].any(), "what was never published is published, whatever it is"
    for moved, version in ((2.0, 1), (2.4, 1), (2.6, 3)):
        row[1] = moved
        trained[1][0, 2] = True
        found.publish(edge, some, trained, records)
        newest = int(found.number[0]) % 2
        assert int(found.version[1][newest, 0, 2]) == (version if version == 1 else int(found.number[0]))
        assert bool(trained[1][0, 2]) == (version == 1), "it waits for the next time"
    assert found.tables[1][newest, 0, 2].tolist() == pytest.approx([3.0, 2.6, 4.0])


def test_what_rounding_leaves_out_comes_with_the_next_publication() -> None:
    some = models()
    found = Publications(some, 2, (), [t.width for t in some.tables], 0, "int8")
    records, total = torch.ones(EDGES, dtype=torch.long), torch.zeros_like(some.tables[1].value[0])
    for _ in range(50):
        trained = [torch.ones_like(flags) for flags in nothing_trained(some)]
        found.publish(torch.arange(EDGES), some, trained, records)
        total += found.tables[1][int(found.number[0]) % 2, 0]
    rows = some.tables[1].value[0]
    torch.testing.assert_close(total + found.residual_rows[1][0], 50 * rows, rtol=0, atol=1e-4)
    assert not torch.equal(found.tables[1][0, 0], found.tables[1][1, 0]), "two publications of a row that stood still"
