"""Peers' models prove themselves on own revealed batches before they count."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.aggregation import Mixing
from alphaedge.core.links import Links
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.trial import Trial
from alphaedge.errors import InvalidValue
from tests.core.mixes import mix_case


def _links(g: int, width: int) -> list[Links[int]]:
    return [Links.start(list(range(10, 10 + width)), Learned().memory) for _ in range(g)]


def _case(seed: int = 0) -> tuple[Mixing, list[Links[int]]]:
    case = mix_case("deepfm", seed=seed)
    mixing = case.mixing()
    present = torch.ones_like(mixing.present)
    mixing = replace(mixing, held=replace(mixing.held, present=present))
    return mixing, _links(*present.shape)


def test_the_edges_own_model_as_a_peer_passes_with_all_its_claims() -> None:
    mixing, links = _case()
    own = replace(
        mixing.held,
        dense=mixing.models.dense.clone(),
        tables=tuple(t.value[t.edges].clone() for t in mixing.models.tables),
        has=tuple(torch.ones(len(t.edges), t.value.shape[1], dtype=torch.bool) for t in mixing.models.tables),
        index=torch.arange(len(links)).unsqueeze(1).expand_as(mixing.held.index),
    )
    left = Trial().hold(replace(mixing, held=own), links, [0] * len(links))
    assert bool(left.present.all())
    torch.testing.assert_close(left.records, mixing.records, rtol=1e-3, atol=1e-3)


def test_a_model_of_noise_is_excluded_and_loses_its_weight_and_its_candidacy() -> None:
    mixing, links = _case()
    noise = replace(mixing.held, dense=100 * torch.randn_like(mixing.held.dense))
    left = Trial().hold(replace(mixing, held=noise), links, [0] * len(links))
    assert not bool(left.present.any())
    for each in links:
        for link in each.known.values():
            assert link.weight == 0
            assert link.exclusions == 1
            assert link.is_excluded(2)
            assert not link.is_excluded(3)


def test_a_model_that_is_not_finite_is_excluded() -> None:
    mixing, links = _case()
    broken = mixing.held.dense.clone()
    broken[:, 0] = math.nan
    left = Trial().hold(replace(mixing, held=replace(mixing.held, dense=broken)), links, [0] * len(links))
    assert not bool(left.present.any())


def test_each_further_exclusion_lasts_twice_as_long_up_to_a_limit() -> None:
    mixing, links = _case()
    noise = replace(mixing, held=replace(mixing.held, dense=100 * torch.randn_like(mixing.held.dense)))
    trial, now, rests = Trial(first_rest=1, longest_rest=4), 0, []
    for _ in range(5):
        trial.hold(noise, links, [now] * len(links))
        until = links[0].known[10].excluded_until
        rests.append(until - now - 1)
        now = until
    assert rests == [1, 2, 4, 4, 4]


def test_a_peer_that_was_excluded_three_times_is_mixed_again_after_two_good_trials() -> None:
    mixing, links = _case()
    noise = replace(mixing.held, dense=100 * torch.randn_like(mixing.held.dense))
    own = replace(mixing.held, dense=mixing.models.dense[:1].expand_as(mixing.held.dense).clone())
    trial, number = Trial(tolerance=1.0, memory=0.0), 0
    for _ in range(3):
        trial.hold(replace(mixing, held=noise), links, [number] * len(links))
        number = max(link.excluded_until for each in links for link in each.known.values())
    assert {link.exclusions for each in links for link in each.known.values()} == {3}
    first = trial.hold(replace(mixing, held=own), links, [number] * len(links))
    assert not bool(first.present.any())
    second = trial.hold(replace(mixing, held=own), links, [number + 1] * len(links))
    assert bool(second.present.all())


def test_a_peer_that_was_once_very_bad_and_recovers_is_excluded_once_and_mixed_again_soon() -> None:
    mixing, links = _case()
    noise = replace(mixing.held, dense=1e6 * torch.randn_like(mixing.held.dense))
    own = replace(mixing.held, dense=mixing.models.dense[:1].expand_as(mixing.held.dense).clone())
    trial = Trial(tolerance=1.0)
    trial.hold(replace(mixing, held=noise), links, [0] * len(links))
    again = max(link.excluded_until for each in links for link in each.known.values())
    rounds = [trial.hold(replace(mixing, held=own), links, [again + n] * len(links)) for n in range(8)]
    assert bool(rounds[-1].present.all())
    assert all(link.excluded_until <= again for each in links for link in each.known.values())


def _worst(mixing: Mixing) -> tuple[float, int, int]:
    """The largest excess of a peer, with the edge and the peer's place."""
    excess = Trial()._excess(mixing)
    edge, place = divmod(int(excess.argmax()), excess.shape[1])
    assert excess[edge, place] > 0
    return float(excess[edge, place]), edge, place


def test_a_model_that_harms_is_left_out_of_this_mix_though_its_peer_is_not_excluded() -> None:
    mixing, links = _case()
    worst, edge, place = _worst(mixing)
    left = Trial(tolerance=1.5 * worst).hold(mixing, links, [0] * len(links))  # smoothed, it is a third of that
    assert not bool(left.present[edge, place])
    assert links[edge].known[10 + place].counts(1)


@pytest.mark.parametrize(("tolerance", "exclusions"), [(2.5, 1), (5.0, 0)])
def test_an_exclusion_is_forgiven_for_a_clearly_good_trial_only(tolerance: float, exclusions: int) -> None:
    mixing, links = _case()
    worst, edge, place = _worst(mixing)
    link = links[edge].known[10 + place]
    link.exclusions = 1
    left = Trial(tolerance=tolerance * worst, memory=0.0).hold(mixing, links, [9] * len(links))
    assert link.exclusions == exclusions
    assert bool(left.present[edge, place]) == (not exclusions)


def test_a_peer_that_stayed_away_has_nothing_to_make_good_for() -> None:
    link, trial, rests = Links.start([10], Learned().memory).known[10], Trial(), []
    for number in range(40):
        if not link.is_excluded(number):
            trial.note_presence(link, False, number)
            rests += [link.excluded_until - number - 1] if link.is_excluded(number + 1) else []
    assert rests[:3] == [2, 4, 8]
    assert link.counts(link.excluded_until)
    for number in range(3):
        trial.note_presence(link, True, 100 + number)
    assert link.absences == 0


def test_peers_are_not_blamed_for_an_edges_own_broken_model() -> None:
    mixing, links = _case()
    mixing.models.dense[:] = torch.nan
    left = Trial().hold(mixing, links, [0] * len(links))
    assert torch.equal(left.present, mixing.present)
    assert not any(link.tried for each in links for link in each.known.values())


def test_a_peer_that_rests_is_not_tried_even_if_it_answers() -> None:
    mixing, links = _case()
    links[0].known[10].excluded_until = 5
    left = Trial().hold(mixing, links, [3] * len(links))
    assert not bool(left.present[0, 0])
    assert not links[0].known[10].tried


def test_an_absent_peer_is_not_tried() -> None:
    mixing, links = _case()
    nobody = replace(mixing, held=replace(mixing.held, present=torch.zeros_like(mixing.present)))
    Trial().hold(nobody, links, [0] * len(links))
    assert not any(link.tried for each in links for link in each.known.values())


def test_a_huge_claim_counts_as_far_as_it_is_borne_out_and_not_for_more_than_a_few_times_the_own_records() -> None:
    mixing, links = _case()
    claims = mixing.records.clone()
    claims[:, 1:] = 2.0**53
    left = Trial(tolerance=1e9).hold(replace(mixing, records=claims), links, [0] * len(links))
    there = left.present
    own = claims[:, :1].expand_as(there)
    assert bool((left.records[:, 1:] <= 4 * own)[there].all())
    for each in links:
        for link in each.known.values():
            link.excess = 1e9
    less = Trial(tolerance=1e9, memory=0.5).hold(replace(mixing, records=claims), links, [1] * len(links))
    torch.testing.assert_close(less.records[:, 1:][there], 2 * own[there])


@given(excess=st.floats(-0.5, 0.2))
def test_claims_count_as_far_as_the_trial_bears_them_out(excess: float) -> None:
    trial = Trial(tolerance=0.1)
    borne_out = trial.trust(excess)
    assert 0 <= borne_out <= 1
    if excess <= 0:
        assert borne_out == 1
    if excess >= 0.1:
        assert borne_out == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": 0.0},
        {"probe": 0.0},
        {"probe": 1.5},
        {"memory": -0.1},
        {"memory": 1.0},
        {"first_rest": 0},
        {"longest_rest": 1},
    ],
)
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        Trial(**wrong)  # type: ignore[arg-type]
