from hypothesis import given
from hypothesis import strategies as st

from alphaedge.backoff import Backoff


def test_a_backoff_that_nothing_has_failed_for_is_ready() -> None:
    assert Backoff(first=1.0, longest=8.0).ready(now=0.0)


def test_waits_double_up_to_the_longest_and_start_again_after_a_success() -> None:
    backoff = Backoff(first=0.5, longest=3.0)
    assert [backoff.failed(now=10.0) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.failures == 5
    assert backoff.retry_at == 13.0
    assert not backoff.ready(12.9)
    assert backoff.ready(13.0)
    backoff.succeeded()
    assert backoff.failures == 0
    assert backoff.ready(10.0)
    assert backoff.failed(now=20.0) == 0.5


@given(st.integers(1, 5000), st.floats(1.0, 10.0))
def test_however_often_something_fails_the_wait_stays_within_its_bounds(failures: int, factor: float) -> None:
    backoff = Backoff(first=1.0, longest=60.0, factor=factor)
    waits = [backoff.failed(now=0.0) for _ in range(failures)]
    assert waits == sorted(waits)
    assert 1.0 <= waits[0] <= waits[-1] <= 60.0
