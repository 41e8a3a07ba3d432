"""Bytes of a pull are counted right, and leaving out what has not changed loses nothing."""

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.exchange import traffic

DENSE, ROWS, WIDTHS = 1000, (6, 4), (12, 8)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
def test_traffic_is_what_sets_of_rows_say(seed: int, edges: int, peers: int) -> None:
    g = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=g)

    versions = [draw(0, 5, edges, peers, rows) for rows in ROWS]
    known_since = [draw(-1, 4, edges, rows) for rows in ROWS]
    publication, pulled_at = draw(-1, 5, edges, peers), draw(-1, 4, edges, peers)
    present = draw(0, 2, edges, peers).bool()
    found = traffic(
        dense_bytes=DENSE,
        row_bytes=WIDTHS,
        held_rows=[(version > 0).sum(2) for version in versions],
        versions=versions,
        known_since=known_since,
        publication=publication,
        pulled_at=pulled_at,
        present=present,
    )
    for i in range(edges):
        for j in range(peers):
            full = common = changed = DENSE
            for t, width in enumerate(WIDTHS):
                held = {r for r in range(ROWS[t]) if versions[t][i, j, r] > 0}
                known = {r for r in range(ROWS[t]) if known_since[t][i, r] >= 0}
                newer = {r for r in held if versions[t][i, j, r] > publication[i, j]}
                fresh = {r for r in known if known_since[t][i, r] > pulled_at[i, j]}
                full += width * len(held)
                common += width * len(held & known)
                changed += width * len(held & known & (newer | fresh))
            expected = (full, common, changed) if present[i, j] else (0, 0, 0)
            assert tuple(int(x[i, j]) for x in found) == expected
    assert found.total() == tuple(int(x.sum()) for x in found)
    assert (found.changed <= found.common).all()
    assert (found.common <= found.full).all()


def test_a_first_pull_takes_all_common_rows() -> None:
    found = traffic(
        dense_bytes=DENSE,
        row_bytes=[12],
        held_rows=[torch.tensor([[3]])],
        versions=[torch.tensor([[[0, 1, 3, 2]]])],
        known_since=[torch.tensor([[0, 0, -1, 2]])],
        publication=torch.tensor([[-1]]),
        pulled_at=torch.tensor([[-1]]),
        present=torch.tensor([[True]]),
    )
    assert found.total() == (DENSE + 36, DENSE + 24, DENSE + 24)


def test_a_pull_of_what_one_has_already_takes_the_dense_part_alone() -> None:
    found = traffic(
        dense_bytes=DENSE,
        row_bytes=[12],
        held_rows=[torch.tensor([[3]])],
        versions=[torch.tensor([[[0, 1, 3, 2]]])],
        known_since=[torch.tensor([[0, 0, -1, 2]])],
        publication=torch.tensor([[3]]),
        pulled_at=torch.tensor([[2]]),
        present=torch.tensor([[True]]),
    )
    assert found.changed.tolist() == [[DENSE]]


def test_a_model_without_id_tables_is_its_dense_part() -> None:
    there = torch.tensor([[True, False, True]])
    nothing = torch.zeros(1, 3, dtype=torch.long)
    found = traffic(
        dense_bytes=DENSE,
        row_bytes=[],
        held_rows=[],
        versions=[],
        known_since=[],
        publication=nothing,
        pulled_at=nothing,
        present=there,
    )
    assert [x.tolist() for x in found] == [[[DENSE, 0, DENSE]]] * 3
    assert found.total() == (2 * DENSE, 2 * DENSE, 2 * DENSE)


@given(st.integers(0, 10_000))
def test_pulling_only_what_changed_leaves_the_receiver_with_the_senders_publication(seed: int) -> None:
    """A sender publishes, a receiver aggregates, and both go on learning ids: the receiver's copy is never stale."""
    rng = random.Random(seed)
    rows, width = 8, 4
    version, value = [0] * rows, [None] * rows  # of the sender, as published
    published, trained = 0, set()
    since, copy = [-1] * rows, {}
    held, pulled_at = -1, -1
    for aggregation in range(12):
        trained |= {r for r in range(rows) if rng.random() < 0.2}
        if rng.random() < 0.6:
            published += 1
            for r in trained:
                version[r], value[r] = published, (r, published)
            trained = set()
        for r in range(rows):
            if since[r] < 0 and rng.random() < 0.2:
                since[r] = aggregation
        if published == 0 or rng.random() < 0.4:
            continue  # it did not pull this time
        found = traffic(
            dense_bytes=0,
            row_bytes=[width],
            held_rows=[torch.tensor([[sum(number > 0 for number in version)]])],
            versions=[torch.tensor([[version]])],
            known_since=[torch.tensor([since])],
            publication=torch.tensor([[held]]),
            pulled_at=torch.tensor([[pulled_at]]),
            present=torch.tensor([[True]]),
        )
        common = {r for r in range(rows) if version[r] > 0 and since[r] >= 0}
        missing = {r for r in common if copy.get(r) != value[r]}
        assert int(found.changed) == width * len(missing)
        copy |= {r: value[r] for r in missing}
        assert all(copy[r] == value[r] for r in common)
        held, pulled_at = published, aggregation
