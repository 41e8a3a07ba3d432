"""Deadlines follow how fast a peer answers, and its rests grow with its failures."""

import pytest

from alphaedge.edge.transport.peer_history import (
    FIRST_DEADLINE_SECONDS,
    MAX_DEADLINE_SECONDS,
    MAX_REST_SECONDS,
    MIN_DEADLINE_SECONDS,
    PeerHistory,
)


def answered(*seconds: float) -> PeerHistory:
    history = PeerHistory()
    for duration in seconds:
        history.record_answer(duration)
    return history


def test_a_new_peer_has_half_of_the_longest_deadline() -> None:
    assert PeerHistory().deadline() == FIRST_DEADLINE_SECONDS == MAX_DEADLINE_SECONDS / 2


def test_a_deadline_is_five_times_the_usual_duration_within_limits() -> None:
    assert answered(*[1.0] * 20).deadline() == pytest.approx(5.0)
    assert answered(1.0, 2.0).deadline() == pytest.approx(5 * (0.7 * 1.0 + 0.3 * 2.0))
    assert answered(0.001).deadline() == MIN_DEADLINE_SECONDS
    assert answered(50.0).deadline() == MAX_DEADLINE_SECONDS


def test_a_peer_that_fails_gets_more_time() -> None:
    history = answered(1.0)
    history.record_failure(now=100.0)
    assert history.deadline() == pytest.approx(10.0)


def test_rests_double_with_each_failure_up_to_a_minute() -> None:
    history = PeerHistory()
    for rest in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_REST_SECONDS, MAX_REST_SECONDS):
        history.record_failure(now=100.0)
        assert history.is_resting(now=100.0 + rest - 0.1)
        assert not history.is_resting(now=100.0 + rest)


def test_an_answer_ends_the_rest() -> None:
    history = PeerHistory()
    history.record_failure(now=100.0)
    history.record_answer(0.1)
    assert not history.is_resting(now=100.0)
    history.record_failure(now=200.0)
    assert not history.is_resting(now=201.0), "the next rest is a first one again"
