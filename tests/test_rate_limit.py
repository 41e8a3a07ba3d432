"""Token buckets: what a caller may do at once and in the long run."""

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.rate_limit import RateLimiter, TokenBucket

RATE, BURST = 5.0, 10.0


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.1, 4.0)), max_size=60))
def test_nobody_gets_more_than_a_burst_and_the_rate(requests: list[tuple[float, float]]) -> None:
    bucket, now, taken = TokenBucket(RATE, BURST), 0.0, 0.0
    for pause, tokens in requests:
        now += pause
        taken += tokens if bucket.take(now, tokens) == 0.0 else 0.0
        assert taken <= BURST + RATE * now + 1e-6


@given(st.floats(0.1, 10.0), st.floats(0.0, 5.0))
def test_who_waits_for_as_long_as_it_was_told_is_served(tokens: float, pause: float) -> None:
    bucket = TokenBucket(RATE, BURST)
    bucket.take(0.0, BURST)
    wait = bucket.take(pause, tokens)
    assert wait == 0.0 or bucket.take(pause + wait + 1e-6, tokens) == 0.0


def test_what_costs_more_than_a_full_bucket_waits_for_a_full_one() -> None:
    bucket = TokenBucket(RATE, BURST)
    assert bucket.take(0.0, 1000.0) == 0.0
    assert bucket.take(0.0, 1000.0) == BURST / RATE


def test_a_clock_that_goes_back_fills_no_bucket() -> None:
    bucket = TokenBucket(RATE, BURST)
    bucket.take(100.0, BURST)
    assert bucket.take(0.0) > 0.0


def test_keys_have_buckets_of_their_own() -> None:
    limiter = RateLimiter[str](1.0, 1.0)
    assert limiter.take("a", 0.0) == 0.0
    assert limiter.take("a", 0.0) == 1.0
    assert limiter.take("b", 0.0) == 0.0


def test_only_so_many_keys_are_remembered_and_those_in_use_stay() -> None:
    limiter = RateLimiter[int](1.0, 1.0, max_keys=3)
    for number in range(1000):
        limiter.take(-1, 0.0)
        limiter.take(number, 0.0)
        assert len(limiter) <= 3
    assert limiter.take(-1, 0.0) > 0.0, "in use all the time, so never forgotten"
