"""An edge hears the tallies of peers that have told its own labels, and of no others."""

import pytest
import torch
from torch import Tensor

from alphaedge.core import tally
from alphaedge.core.aggregation import HeldModels, Mixing
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.hearing import FIRST_TRUST, MAX_EVENTS_RATIO, add_up, hear, trust_in
from alphaedge.core.labels import LABELS
from alphaedge.core.links import Link, Links
from alphaedge.core.model_check import as_batch
from alphaedge.core.state import ModelState

from .test_tally import told

ITEMS = 6
TASTE = torch.tensor([1.0, -1.0, 0.5, -0.5, 1.5, -1.5], dtype=torch.float64)  # the labels of each item


def peer(kind: str, events: float = 40.0) -> Tensor:
    """What a peer claims of all items, [rows + 1, 2]."""
    g = torch.Generator().manual_seed(0)
    means = {"honest": TASTE, "liar": -TASTE, "noise": torch.randn(ITEMS, generator=g).double()}
    total = events * means.get(kind, TASTE)
    claims = torch.stack([torch.full_like(total, events), total], dim=1)
    return torch.cat([claims, claims.new_zeros(1, 2)])


def mixing(claims: list[Tensor], *, present: list[bool] | None = None, own_events: float = 100.0) -> Mixing:
    """An edge with one batch of labels by ``TASTE``, and peers that make these claims."""
    model, count = told(), len(claims)
    state = ModelState.start([model], [0])
    table = state.tables[0]
    table.value[0, 0, table.width] = own_events
    items = torch.arange(60) % ITEMS
    batch = as_batch(model, [items], TASTE[items])
    state.buffers[LABELS] = torch.tensor([[60.0, 0.0, 1.0]], dtype=torch.float64)
    rows = torch.stack([torch.cat([torch.zeros(ITEMS + 1, table.width), some], dim=1).double() for some in claims])
    held = HeldModels(
        torch.zeros(count, state.dense.shape[1]).double(),
        (rows,),
        (torch.ones(count, ITEMS + 1, dtype=torch.bool),),
        {},
        torch.arange(count).unsqueeze(0),
        torch.tensor([present or [True] * count]),
    )
    known = torch.ones(1, ITEMS + 1, dtype=torch.bool)
    known[0, -1] = False
    records = torch.full((1, 1 + count), 100.0, dtype=torch.float64)
    return Mixing(state, held, records, [batch], OneAtATime(model), [known])


def heard(found: Mixing) -> Tensor:
    table = found.models.tables[0]
    return table.value[0, :-1, table.width + tally.COLUMNS :]


def links(count: int) -> Links[int]:
    return Links(Link(1.0), list(range(count)), {j: Link(1.0) for j in range(count)})


def test_an_honest_peer_is_believed_and_a_liar_is_not() -> None:
    found, known = mixing([peer("honest"), peer("liar")]), links(2)
    for _ in range(5):
        hear(found, [known])
    assert trust_in(known.known[0]) > 0.9
    assert trust_in(known.known[1]) == 0.0
    torch.testing.assert_close(heard(found), trust_in(known.known[0]) * peer("honest")[:-1])


def test_a_peer_that_knows_nothing_about_the_edges_items_is_hardly_believed() -> None:
    found, known = mixing([peer("noise")]), links(1)
    for _ in range(20):
        hear(found, [known])
    assert trust_in(known.known[0]) < 0.5


def test_before_it_has_said_anything_a_peer_is_believed_by_half() -> None:
    assert trust_in(Link(1.0)) == FIRST_TRUST


def test_a_peer_that_turns_round_loses_the_trust_that_it_had() -> None:
    known = links(1)
    for _ in range(20):
        hear(mixing([peer("honest")]), [known])
    for _ in range(20):
        hear(mixing([peer("liar")]), [known])
    assert trust_in(known.known[0]) == 0.0


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_inflated_claims_count_for_no_more_events_than_the_cap(factor: float) -> None:
    found = mixing([peer("honest", 40.0 * factor)])
    hear(found, [links(1)])
    assert float(heard(found)[:, 0].sum()) <= MAX_EVENTS_RATIO * 100.0 + 1e-6


def test_an_edge_that_has_counted_nothing_hears_nothing() -> None:
    found = mixing([peer("honest")], own_events=0.0)
    hear(found, [links(1)])
    assert not heard(found).any()


def test_an_absent_peer_is_not_heard_and_neither_gains_nor_loses_trust() -> None:
    found, known = mixing([peer("honest"), peer("liar")], present=[True, False]), links(2)
    hear(found, [known])
    assert trust_in(known.known[1]) == FIRST_TRUST
    torch.testing.assert_close(heard(found), trust_in(known.known[0]) * peer("honest")[:-1])


def test_tallies_add_up() -> None:
    one, other = peer("honest")[:-1], peer("noise")[:-1]
    found = add_up(torch.stack([one, other]).unsqueeze(0), torch.ones(1, 2).double(), torch.tensor([1e9]).double())
    torch.testing.assert_close(found[0], one + other)
