"""The audit of tallies neither cries wolf nor sleeps."""

from dataclasses import replace

from alphaedge.audit.tallies import audit_tallies
from alphaedge.core.privacy.settings import Privacy

from .worlds import silence

PRIVACY = Privacy(epsilon=1.0, tally_batches=2)


def test_who_was_there_before_the_crowd_is_not_told() -> None:
    assert not audit_tallies(PRIVACY, canaries=200).broken


def test_without_noise_counts_tell_it() -> None:
    found = audit_tallies(PRIVACY, canaries=200, noise=silence)
    assert found.broken
    assert found.guesses.epsilon > 2


def test_more_is_observed_where_less_is_promised() -> None:
    assert audit_tallies(replace(PRIVACY, epsilon=50.0), canaries=200).guesses.epsilon > 0
