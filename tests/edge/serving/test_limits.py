"""What callers may use of a server, decided without a server."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.config import ServeConfig
from alphaedge.edge.serving.chunk_size import MAX_EXAMPLES, MIN_EXAMPLES, TARGET_SECONDS, ChunkSize
from alphaedge.edge.serving.limits import Budget, CallerLimits, caller_at
from alphaedge.edge.serving.refusals import LOG_INTERVAL_SECONDS, Refusals

TOTAL, PER_CALLER = 20, 8


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 10))))
def test_a_budget_is_never_exceeded_and_all_of_it_comes_back(wanted: list[tuple[str, int]]) -> None:
    budget = Budget(TOTAL, PER_CALLER)
    held: list[tuple[str, int]] = []
    for caller, amount in wanted:
        own, others = (sum(n for c, n in held if (c == caller) == same) for same in (True, False))
        fits = own + amount <= PER_CALLER and own + others + amount <= TOTAL
        assert budget.take(caller, amount) == fits
        if fits:
            held.append((caller, amount))
        assert budget.is_used_up == (sum(n for _, n in held) == TOTAL)
    for caller, amount in held:
        budget.give_back(caller, amount)
    assert len(budget) == 0, "nobody is remembered"
    assert budget.take("a", PER_CALLER)


def test_a_caller_of_ipv6_is_a_whole_network() -> None:
    assert caller_at("2001:db8:1:2:3:4:5:6") == caller_at("2001:db8:1:2::9") != caller_at("2001:db8:1:3::9")
    assert caller_at("fe80::1%eth0") == "fe80::"


def test_a_caller_has_a_rate_of_its_own_and_0_is_no_limit() -> None:
    limits = CallerLimits(ServeConfig(max_requests_per_second=2.0))
    assert [limits.wait_seconds("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert limits.wait_seconds("b", 0.0) == 0.0
    assert limits.wait_seconds("a", 0.5) == 0.0
    free = CallerLimits(ServeConfig(max_requests_per_second=0.0))
    assert not any(free.wait_seconds("a", 0.0) for _ in range(1000))


def test_one_address_leaves_connections_to_others_and_the_system_may_allow_fewer() -> None:
    limits = CallerLimits(ServeConfig(max_connections=10, max_connections_per_address=6))
    assert [limits.connections.take("a") for _ in range(7)].count(True) == 6
    assert [limits.connections.take("b") for _ in range(7)].count(True) == 4
    few = CallerLimits(ServeConfig(max_connections=10, max_connections_per_address=6), max_connections=3)
    assert [few.connections.take("a") for _ in range(7)].count(True) == 3


def test_refusals_are_counted_each_and_logged_now_and_then() -> None:
    counted: list[tuple[str, str]] = []
    logged: list[dict[str, Any]] = []
    now = [0.0]
    refusals = Refusals(
        lambda endpoint, reason: counted.append((endpoint, reason)),
        lambda: now[0],
        lambda event, **fields: logged.append({"event": event, **fields}),
    )
    for _ in range(100):
        refusals.note("infer", "rate", "192.0.2.7")
    refusals.note("infer", "body", "192.0.2.8")
    assert len(counted) == 101
    now[0] = LOG_INTERVAL_SECONDS
    refusals.note("feedback", "rate", "192.0.2.9")
    assert [(one["reason"], one["count"], one["caller"]) for one in logged] == [
        ("rate", 1, "192.0.2.7"),
        ("body", 1, "192.0.2.8"),
        ("rate", 100, "192.0.2.9"),
    ]


@given(st.lists(st.tuples(st.integers(1, 600), st.floats(0.0, 1.0))), st.floats(1e-6, 0.5))
def test_chunks_become_as_large_as_the_model_is_fast(before: list[tuple[int, float]], per_example: float) -> None:
    size = ChunkSize()
    for examples, seconds in before:
        size.note(examples, seconds)
        assert MIN_EXAMPLES <= size.examples <= MAX_EXAMPLES
    for _ in range(20):
        size.note(size.examples, per_example * size.examples)
    seconds = per_example * size.examples
    assert seconds <= TARGET_SECONDS or size.examples == MIN_EXAMPLES
    assert seconds >= TARGET_SECONDS / 4 or size.examples == MAX_EXAMPLES
