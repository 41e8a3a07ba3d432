"""Rows within a budget of bytes: the most useful ones, for each owner on its own."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.row_budget import usefulness, within_budget

tables = st.lists(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 2)), max_size=8), min_size=1, max_size=3)


@given(tables, st.integers(1, 60))
def test_what_fits_is_within_the_budget_of_its_owner_and_more_useful_than_what_waits(
    given_rows: list[list[tuple[float, int]]], budget: int
) -> None:
    useful = [torch.tensor([u for u, _ in rows]) for rows in given_rows]
    owners = [torch.tensor([o for _, o in rows], dtype=torch.long) for rows in given_rows]
    sizes = [4 + 3 * t for t in range(len(given_rows))]
    fits = within_budget(useful, owners, sizes, budget)
    for owner in range(3):
        mine = [
            (float(u) / size, size, bool(fit))
            for some, who, mask, size in zip(useful, owners, fits, sizes, strict=True)
            for u, o, fit in zip(some, who.tolist(), mask.tolist(), strict=True)
            if o == owner
        ]
        taken, left = [x for x in mine if x[2]], [x for x in mine if not x[2]]
        assert bool(taken) == bool(mine), "something is always published"
        assert sum(size for _, size, _ in taken) <= budget or len(taken) == 1
        assert not left or min(x[0] for x in taken) >= max(x[0] for x in left)


@given(tables)
def test_with_room_for_all_nothing_waits(given_rows: list[list[tuple[float, int]]]) -> None:
    useful = [torch.tensor([u for u, _ in rows]) for rows in given_rows]
    owners = [torch.tensor([o for _, o in rows], dtype=torch.long) for rows in given_rows]
    assert all(bool(fit.all()) for fit in within_budget(useful, owners, [9] * len(given_rows), 10_000))


def test_events_that_peers_do_not_know_count_before_movement() -> None:
    published = torch.zeros(3, 4)
    rows = torch.tensor([[0.0, 0.0, 2.0, 1.0], [9.0, 9.0, 1.0, 0.0], [0.1, 0.0, 1.0, 0.0]])
    assert usefulness(rows, published, 2).argsort(descending=True).tolist() == [0, 1, 2]
    assert usefulness(rows[:, :2], published[:, :2], 2).argsort(descending=True).tolist() == [1, 2, 0]
