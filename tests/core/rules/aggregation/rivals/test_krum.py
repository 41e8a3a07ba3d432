"""Krum and multi-Krum."""

import pytest
import torch

from alphaedge.core.rules.aggregation.rivals.krum import Krum, krum_scores

from .line import line, mixed

NUMBERS = (0.0, 1.0, 2.5, 3.0, 10.0)


def test_by_hand_the_scores_are_squared_distances_to_the_two_closest() -> None:
    points = torch.tensor(NUMBERS)
    squares = (points[:, None] - points).square().unsqueeze(0)
    scores = krum_scores(squares, torch.ones(1, 5, dtype=torch.bool), torch.tensor([[2]]))
    assert scores[0].tolist() == pytest.approx([1 + 6.25, 1 + 2.25, 0.25 + 2.25, 0.25 + 4, 49 + 56.25])


def test_by_hand_krum_takes_the_model_with_the_most_company() -> None:
    value, raw = mixed(Krum(kept=1), line(*NUMBERS))  # five models, one taken to be hostile: the 2 closest count
    assert raw == [0, 0, 1, 0, 0]
    assert value == 2.5


def test_by_hand_multi_krum_leaves_out_the_one_that_is_far_away() -> None:
    value, raw = mixed(Krum(), line(*NUMBERS))
    assert raw == [1, 1, 1, 1, 0]
    assert value == pytest.approx(6.5 / 4)


def test_an_absent_model_is_nobodys_company_and_keeps_its_weight() -> None:
    _, raw = mixed(Krum(kept=1), line(0.0, 2.0, 3.0, 0.1, 0.2, present=[True, True, False, False]))
    assert raw == [0, 1, 0, 1, 1], "of 0, 2 and 3"


def test_with_a_single_peer_the_own_model_stays() -> None:
    value, raw = mixed(Krum(kept=1), line(0.0, 1.0))
    assert (value, raw) == (0.0, [1, 0])
