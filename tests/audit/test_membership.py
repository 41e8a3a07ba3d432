"""Attacks on single events: what they find without privacy, and that they find nothing with it."""

from statistics import NormalDist

import pytest
import torch

from alphaedge.audit.audit import Audit, audit_edge
from alphaedge.audit.membership import lira, loss_threshold, share_caught
from alphaedge.core.online import Online
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam

from .worlds import BATCH, shop


def test_the_share_that_is_caught_is_counted_above_all_but_one_in_a_hundred_of_the_others() -> None:
    members = torch.arange(400) < 200
    scores = torch.cat([torch.linspace(0, 2, 200), torch.linspace(0, 1, 200)])
    assert share_caught(scores, members) == pytest.approx(0.5, abs=0.02)


def test_scores_by_chance_are_worth_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    members = torch.rand(6, 500, generator=generator) < 0.5
    for attack in (loss_threshold, lira):
        found = attack(torch.randn(6, 500, generator=generator), members)
        assert found is not None
        assert found.auc == pytest.approx(0.5, abs=0.03)
        assert found.caught < 0.04


def test_the_interval_of_a_single_run_covers_the_truth_as_often_as_it_says() -> None:
    generator, members = torch.Generator().manual_seed(0), torch.arange(300) < 100
    truth = NormalDist().cdf(0.5 / 2**0.5)
    covered = 0
    for _ in range(300):
        losses = torch.randn(1, 300, generator=generator) - 0.5 * members
        found = loss_threshold(losses, members.unsqueeze(0))
        assert found is not None
        assert found.auc_ci95 is not None
        covered += abs(found.auc - truth) < found.auc_ci95
    assert 0.92 < covered / 300 < 0.98


def test_shadow_runs_see_what_losses_hide() -> None:
    """Events differ much more from each other than members from others: a threshold on the loss tells little."""
    generator = torch.Generator().manual_seed(0)
    members = torch.rand(8, 500, generator=generator) < 0.5
    confidences = 10 * torch.randn(500, generator=generator) + 2.0 * members
    confidences = confidences + 0.5 * torch.randn(8, 500, generator=generator)
    by_loss, by_shadow = loss_threshold(-confidences, members), lira(confidences, members)
    assert by_loss is not None
    assert by_shadow is not None
    assert by_loss.auc < 0.6 < 0.95 < by_shadow.auc


@pytest.fixture(scope="module")
def audit() -> Audit:
    world = shop(lots=60)
    online = Online(Adam(0.01), row_optimizer=Adagrad(0.5))
    privacy = Privacy(epsilon=4.0)
    return audit_edge(world.model, world.events, privacy, online, "a", BATCH, 200, quick=True, seed=1)


def test_without_privacy_peers_tell_members_and_with_it_they_do_not(audit: Audit) -> None:
    private, plain = audit.private.lira, audit.plain.lira
    assert private is not None
    assert plain is not None
    assert plain.auc - (plain.auc_ci95 or 0.0) > 0.55
    assert private.auc < 0.54


def test_the_label_of_an_id_with_one_event_is_read_without_privacy_and_never_with_it(audit: Audit) -> None:
    assert audit.plain.rare_ids.ids > 5
    assert audit.plain.rare_ids.read >= 0.9 * audit.plain.rare_ids.ids
    assert audit.private.rare_ids.told == 0
    assert audit.private.rare_ids.read == 0
