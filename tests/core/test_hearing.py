"""An edge hears the tallies of peers that have told its own labels, and of no others."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from alphaedge.core import tally
from alphaedge.core.aggregation import HeldModels, Mixing
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.hearing import (
    FIRST_TRUST,
    FORMER,
    MAX_EVENTS_RATIO,
    MEMORY,
    NEWCOMERS,
    Overheard,
    add_up,
    hear,
    listen,
    trust_in,
)
from alphaedge.core.labels import LABELS
from alphaedge.core.links import Ear, Link, Links
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
    assert trust_in(known.ears[0]) > 0.9
    assert trust_in(known.ears[1]) == 0.0
    torch.testing.assert_close(heard(found), trust_in(known.ears[0]) * peer("honest")[:-1])


def test_a_peer_that_knows_nothing_about_the_edges_items_is_hardly_believed() -> None:
    found, known = mixing([peer("noise")]), links(1)
    for _ in range(20):
        hear(found, [known])
    assert trust_in(known.ears[0]) < 0.5


def test_before_it_has_said_anything_a_peer_is_believed_by_half() -> None:
    assert trust_in(Ear()) == FIRST_TRUST


def test_a_peer_that_turns_round_loses_the_trust_that_it_had() -> None:
    known = links(1)
    for _ in range(20):
        hear(mixing([peer("honest")]), [known])
    for _ in range(20):
        hear(mixing([peer("liar")]), [known])
    assert trust_in(known.ears[0]) == 0.0


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
    assert 1 not in known.ears
    torch.testing.assert_close(heard(found), trust_in(known.ears[0]) * peer("honest")[:-1])


def test_tallies_add_up() -> None:
    one, other = peer("honest")[:-1], peer("noise")[:-1]
    found = add_up(torch.stack([one, other]).unsqueeze(0), torch.ones(1, 2).double(), torch.tensor([1e9]).double())
    torch.testing.assert_close(found[0], one + other)


def overheard(claims: list[Tensor], *, present: list[bool] | None = None) -> Overheard:
    """What one edge hears of others that make these claims."""
    count = len(claims)
    there = torch.tensor([present or [True] * count])
    return Overheard((torch.stack(claims).unsqueeze(0).double(),), [[1] * count], there)


def test_others_are_heard_like_neighbours_and_trusted_by_what_they_tell() -> None:
    found, known = mixing([peer("noise")]), links(1)
    known.listen([7, 8])
    for _ in range(5):
        hear(found, [known], overheard([peer("honest"), peer("liar")]))
    assert trust_in(known.ears[7]) > 0.9
    assert trust_in(known.ears[8]) == 0.0
    sums = trust_in(known.ears[0]) * peer("noise") + trust_in(known.ears[7]) * peer("honest")
    torch.testing.assert_close(heard(found), sums[:-1])


def test_an_other_whose_tallies_do_not_come_is_not_heard() -> None:
    found, known = mixing([peer("noise")]), links(1)
    known.listen([7, 8])
    hear(found, [known], overheard([peer("honest"), peer("honest")], present=[False, True]))
    assert known.ears[7] == Ear()
    assert known.ears[8].told > 0


def test_an_edge_goes_on_hearing_whom_it_believes_and_gives_the_place_of_others_away() -> None:
    known = links(2)
    known.listen([2, 3, 4, 5])
    known.ears |= {2: Ear(90.0, 100.0), 3: Ear(0.0, 100.0), 4: Ear(80.0, 100.0), 5: Ear()}
    listen(9, known, range(10), 4, random.Random(0))
    assert known.others[:2] == [2, 4]
    assert not {0, 1, 3, 5, 9} & set(known.others), "one was not believed, and one has said nothing"


def test_only_a_few_others_give_way_at_once() -> None:
    known = links(2)
    known.listen(list(range(10, 25)))
    listen(9, known, range(500), 15, random.Random(0))
    assert len(set(range(10, 25)) & set(known.others)) == 15 - NEWCOMERS


@pytest.mark.parametrize("fleet", [50, 1000])
def test_peers_that_are_worth_hearing_are_found_in_a_large_fleet(fleet: int) -> None:
    """A third of the peers tell labels with a factor of 0.6; a tenth say nothing; the rest is noise."""
    rng, noise, known = random.Random(0), random.Random(1), links(5)
    known.neighbours = []
    for _ in range(300):
        listen(0, known, range(fleet), 15, rng)
        for j in known.others:
            ear, size = known.ears[j], 10.0 * (j % 10 != 1)
            ear.agreed = MEMORY * ear.agreed + 0.6 * size * (j % 3 == 0) + noise.gauss(0, size**0.5)
            ear.told = MEMORY * ear.told + size
    good = [j for j in known.others if j % 3 == 0 and j % 10 != 1]
    assert len(good) >= 12
    assert len(known.ears) <= 15 + FORMER + NEWCOMERS


def test_everybody_is_heard_in_a_fleet_that_is_small_enough() -> None:
    known = links(2)
    listen(9, known, range(10), 15, random.Random(0))
    assert sorted(known.others) == [2, 3, 4, 5, 6, 7, 8]


def test_a_peer_that_was_not_believed_is_heard_again_where_there_is_nobody_else() -> None:
    known = links(1)
    known.listen([1])
    known.ears[1] = Ear(-50.0, 100.0)
    listen(9, known, [0, 1, 2], 1, random.Random(0))
    assert known.others == [2]
    known.ears[2] = Ear(-50.0, 100.0)
    listen(9, known, [0, 1, 2], 1, random.Random(0))
    assert known.others == [1]


def test_what_others_count_of_ids_that_are_new_to_the_edge_is_not_heard_yet() -> None:
    found, known = mixing([peer("noise")]), links(1)
    known.listen([7])
    met = found.known[0].clone()
    found.known[0][0, 2] = False
    wanted = met & ~found.known[0]
    hear(replace(found, wanted=[wanted]), [known], overheard([peer("honest")]))
    torch.testing.assert_close(heard(found)[2], trust_in(known.ears[0]) * peer("noise")[2])


def test_a_peer_that_was_only_heard_leaves_no_weight_behind() -> None:
    known = links(1)
    known.listen([7])
    known.drop(7)
    assert (known.others, set(known.known)) == ([], {0})


def test_tallies_are_pulled_anew_from_a_peer_that_is_heard_again() -> None:
    known = links(1)
    known.listen([1, 2])
    known.ears[1].publication, known.ears[2].publication = 4, 5
    known.listen([2])
    known.listen([1, 2])
    assert (known.ears[1].publication, known.ears[2].publication) == (-1, 5)


@pytest.mark.parametrize("fleet", [3, 40, 5_000])
def test_others_are_candidates_that_are_neither_the_edge_nor_its_neighbours(fleet: int) -> None:
    rng, known = random.Random(1), links(2)
    for _ in range(20):
        listen(2, known, range(fleet), 5, rng)
        assert len(known.others) == len(set(known.others)) == min(5, fleet - 3)
        assert set(known.others) <= set(range(3, fleet))
