"""The plan of a replay: every event once and in order, outcomes never before their predictions, time as it was."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import InvalidValue, Stream
from alphaedge.replay.pace import Delay, Options, duration, speed
from alphaedge.replay.plan import Plan, speed_for, start_of

from .virtual import stream

moments = st.lists(st.floats(0, 1e6), max_size=40).map(sorted)
delays = st.builds(Delay, st.floats(0, 1e5), st.booleans())


def planned(events: Stream, options: Options, seed: int = 0) -> Plan:
    return Plan.of(events, options, start=start_of([events]), rng=np.random.default_rng(seed))


@given(moments, st.integers(1, 7), delays)
def test_every_event_is_asked_for_once_and_in_order(times: list[float], size: int, delay: Delay) -> None:
    plan = planned(stream(times), Options(per_request=size, delay=delay))
    groups = [s.group for s in plan.steps() if not s.tells]
    events = [e for g in groups for e in range(*plan.slice(g).indices(len(times)))]
    assert events == list(range(len(times)))
    assert all(plan.slice(g).stop - plan.slice(g).start == size for g in groups[:-1])


@given(moments, st.integers(1, 7), delays)
def test_what_came_of_a_prediction_is_told_once_after_it_and_in_the_order_of_time(
    times: list[float], size: int, delay: Delay
) -> None:
    plan = planned(stream(times), Options(per_request=size, delay=delay))
    steps = list(plan.steps())
    assert [s.moment for s in steps] == sorted(s.moment for s in steps)
    place = {(s.group, s.tells): at for at, s in enumerate(steps)}
    assert len(place) == len(steps) == 2 * len(plan)
    assert all(place[g, False] < place[g, True] for g in range(len(plan)))


@given(moments, st.integers(1, 7))
def test_without_delay_every_outcome_is_known_to_the_next_prediction(times: list[float], size: int) -> None:
    plan = planned(stream(times), Options(per_request=size))
    assert [(s.group, s.tells) for s in plan.steps()] == [
        (g, tells) for g in range(len(plan)) for tells in (False, True)
    ]


@given(moments.filter(bool), st.integers(1, 7), st.floats(0.001, 1e5))
def test_a_request_leaves_when_its_last_event_has_happened(times: list[float], size: int, unit: float) -> None:
    plan = planned(stream(times), Options(per_request=size, unit=unit))
    last = [times[plan.slice(g).stop - 1] for g in range(len(plan))]
    assert plan.asked == pytest.approx([(t - times[0]) * unit for t in last])


def test_outcomes_of_one_moment_are_told_before_the_next_prediction_of_that_moment() -> None:
    plan = planned(stream([0.0, 1.0, 2.0]), Options(per_request=1, delay=Delay(1.0)))
    assert [(s.group, s.tells) for s in plan.steps()] == [
        (0, False), (0, True), (1, False), (1, True), (2, False), (2, True),
    ]  # fmt: skip


def test_delays_are_drawn_from_the_seed_with_the_mean_that_was_asked_for() -> None:
    events, options = stream([0.0] * 4000), Options(per_request=1, delay=Delay.parse("exp:1h"))
    one, same, other = (planned(events, options, seed) for seed in (1, 1, 2))
    assert (one.due == same.due).all()
    assert (one.due != other.due).any()
    assert float((one.due - one.asked).mean()) == pytest.approx(3600, rel=0.05)


def test_edges_share_the_first_moment_of_all() -> None:
    early, late = stream([5.0, 7.0]), stream([6.0, 9.0])
    assert start_of([late, early, stream([])]) == 5.0
    assert speed_for([early, late], Options(unit=60.0), 10.0) == 24.0


@given(st.floats(0.001, 1e6))
def test_a_speed_is_a_factor(factor: float) -> None:
    assert speed(f"{factor:f}x") == pytest.approx(factor, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("30", 30), ("5m", 300), ("1.5h", 5400), ("2 d", 172_800), (".5w", 302_400)]
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert duration("delay", text) == seconds


@pytest.mark.parametrize("text", ["", "fast", "0", "0x", "-3x", "x", "1e3x", "nanx"])
def test_a_speed_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^speed: found .*; allowed: max, or how many times as fast, such as 100x$"):
        speed(text)


@pytest.mark.parametrize("text", ["", "soon", "5x", "-1s", "exp:", "exp:x", "normal:1h", "1h2m"])
def test_a_delay_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^delay: found "):
        Delay.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [{"per_request": 0}, {"connections": 0}, {"batch_size": 1.5}, {"patience": -1.0}, {"speed": 0.0}, {"unit": -1.0}],
)
def test_options_that_make_no_sense_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=f"^{next(iter(wrong))}: found "):
        Options(**wrong)  # type: ignore[arg-type]


def test_steps_of_a_plan_are_many_and_cheap() -> None:
    plan = planned(stream(list(map(float, range(10_000)))), Options(per_request=3, delay=Delay(7.0)))
    assert all(a.moment <= b.moment for a, b in pairwise(plan.steps()))
