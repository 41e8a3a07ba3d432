"""A peer's rests grow with its failures, and only an answer that is accepted ends them."""

from alphaedge.edge.transport.peer_history import MAX_REST_SECONDS, PeerHistory


def test_rests_double_with_each_failure_up_to_a_minute() -> None:
    history = PeerHistory()
    for rest in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_REST_SECONDS, MAX_REST_SECONDS):
        history.record_failure(now=100.0)
        assert history.is_resting(now=100.0 + rest - 0.1)
        assert not history.is_resting(now=100.0 + rest)


def test_an_accepted_answer_ends_the_rest() -> None:
    history = PeerHistory()
    history.record_failure(now=100.0)
    history.record_acceptance()
    assert not history.is_resting(now=100.0)
    history.record_failure(now=200.0)
    assert not history.is_resting(now=201.0), "the next rest is a first one again"


def test_a_peer_that_says_when_to_come_back_is_believed_up_to_a_minute() -> None:
    history = PeerHistory()
    history.record_failure(now=100.0, at_least=30.0)
    assert history.is_resting(now=129.9)
    assert not history.is_resting(now=130.0)
    history.record_failure(now=200.0, at_least=10_000.0)
    assert not history.is_resting(now=200.0 + MAX_REST_SECONDS)
