"""The examples of a lot by user."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaedge.core.batch import Batch
from alphaedge.core.privacy.lot import Lot


@settings(max_examples=30, deadline=None)
@given(edges=st.integers(1, 4), events=st.integers(1, 40), users=st.integers(1, 12), seed=st.integers(0, 100))
def test_every_example_is_with_those_of_its_user_once(edges: int, events: int, users: int, seed: int) -> None:
    names = torch.randint(users, (edges, events), generator=torch.Generator().manual_seed(seed)) * 2**40
    batch = Batch((), (), torch.zeros(edges, events))
    lot = Lot.of_users(batch, names, torch.ones(edges, events, dtype=torch.bool))
    assert int(lot.users.max()) + 1 == sum(len(set(row)) for row in names.tolist())
    found, number = [], lot.users.flatten()
    for some in lot.by_user():
        assert torch.equal(number[some.examples], some.users.unsqueeze(1).expand_as(some.examples))
        assert (2 * some.there.sum(1) > some.there.shape[1]).all()
        assert torch.equal(some.of(lot.users.unsqueeze(2))[..., 0], number[some.examples])
        found.append(some.examples[some.there])
    assert torch.equal(torch.cat(found).sort().values, torch.arange(edges * events))
