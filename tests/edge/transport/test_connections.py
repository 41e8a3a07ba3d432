"""Whoever has the most connections loses one first."""

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.transport.connections import ConnectionTable


def table(*owners: str, max_total: int = 8, max_per_member: int = 3) -> ConnectionTable[int]:
    """Identified connections of these members, numbered from 0."""
    made = ConnectionTable[int](max_total, max_per_member)
    for number, owner in enumerate(owners):
        assert made.add(number, "10.0.0.1") is None
        assert made.identify(number, owner) is None
    return made


def test_a_new_connection_takes_the_place_of_the_largest_owners_oldest() -> None:
    full = table("ann", "bob", "bob", "bob", "cem", "cem", "dora", "dora")
    assert full.add(8, "10.0.0.2") == 1


def test_a_connection_with_work_to_do_is_closed_last() -> None:
    full = table("ann", "bob", "bob", "bob", "cem", "cem", "dora", "dora")
    full.set_busy(1, busy=True)
    assert full.add(8, "10.0.0.2") == 2
    for busy in (2, 3):
        full.set_busy(busy, busy=True)
    assert full.add(9, "10.0.0.3") == 1


def test_a_member_with_too_many_loses_its_own() -> None:
    some = table("ann", "bob", "bob", "bob")
    some.add(4, "10.0.0.9")
    assert some.identify(4, "bob") == 1
    assert some.of_member("bob") == [1, 2, 3, 4], "until it is closed"
    some.remove(1)
    assert some.of_member("bob") == [2, 3, 4]


def test_connections_without_a_certificate_take_at_most_a_quarter() -> None:
    some = ConnectionTable[int](8)
    assert [some.add(n, "10.0.0.1") for n in range(2)] == [None, None]
    assert some.add(2, "10.0.0.2") == 0, "of the address with the most"
    some.remove(0)
    assert some.add(3, "10.0.0.3") == 1, "the oldest if all have the same"


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_there_are_never_too_many_and_the_newest_stays(events: list[tuple[int, bool]]) -> None:
    some, limit = ConnectionTable[int](8, 3), 8
    for number, (owner, identifies) in enumerate(events):
        victim = some.add(number, f"10.0.0.{owner}")
        assert victim != number
        if victim is not None:
            some.remove(victim)
        if identifies:
            victim = some.identify(number, f"member {owner}")
            assert victim != number
            if victim is not None:
                some.remove(victim)
        assert len(some) <= limit
        assert all(len(some.of_member(f"member {one}")) <= 3 for one in range(4))
