"""Nobody counts more often in a window than the promise allows."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.settings import Privacy

USERS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(lots=st.lists(st.tuples(st.integers(0, 4), USERS), max_size=20), often=st.integers(1, 3))
def test_in_every_window_a_user_counts_at_most_so_often(lots: list[tuple[int, list[int]]], often: int) -> None:
    privacy, ledger = Privacy(user="user", participations=often), Ledger[int]()
    counted: Counter[tuple[int, int]] = Counter()
    for window, users in lots:
        ledger.open(window)
        admitted, in_tallies = ledger.admit(privacy, users)
        assert all(counts or not also for counts, also in zip(admitted, in_tallies, strict=True))
        for user in set(users):
            own = {counts for one, counts in zip(users, admitted, strict=True) if one == user}
            assert len(own) == 1  # all of a user's events in a lot count, or none
            counted[ledger.window, user] += own.pop()
    assert all(count <= often for count in counted.values())


def test_a_clock_that_goes_back_opens_no_window_again() -> None:
    privacy, ledger = Privacy(user="user"), Ledger[str]()
    ledger.open(7)
    assert ledger.admit(privacy, ["ann"])[0] == [True]
    ledger.open(6)
    assert ledger.admit(privacy, ["ann", "bob"])[0] == [False, True]
    ledger.open(8)
    assert ledger.admit(privacy, ["ann"])[0] == [True]
    assert ledger.windows == 2


def test_while_tallies_wait_for_noise_a_user_counts_in_them_no_more_often_than_in_one_window() -> None:
    privacy, ledger = Privacy(user="user"), Ledger[str]()
    found = []
    for window, period in ((0, 0), (1, 0), (2, 0), (3, 1)):
        ledger.open(window, period)
        found.append(ledger.admit(privacy, ["ann"]))
    assert found == [([True], [True]), ([True], [False]), ([True], [False]), ([True], [True])]
