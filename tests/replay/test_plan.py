"""The plan of a replay: every event once and in order, and feedback never before its predictions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import InvalidValue, Stream
from alphaedge.replay.options import Delay, ReplayOptions, parse_duration, parse_speed
from alphaedge.replay.plan import Plan, first_event_time, speed_for

from .virtual_time import stream

moments = st.lists(st.floats(0, 1e6), max_size=40).map(sorted)
delays = st.builds(Delay, st.floats(0, 1e5), st.booleans())


def planned(events: Stream, options: ReplayOptions, seed: int = 0) -> Plan:
    return Plan.make(events, options, start=first_event_time([events]), rng=np.random.default_rng(seed))


@given(moments, st.integers(1, 7), delays)
def test_every_event_is_predicted_once_and_in_order(times: list[float], size: int, delay: Delay) -> None:
    plan = planned(stream(times), ReplayOptions(per_request=size, delay=delay))
    groups = [s.group for s in plan.steps() if not s.is_feedback]
    events = [e for g in groups for e in range(*plan.events_of(g).indices(len(times)))]
    assert events == list(range(len(times)))
    assert all(plan.events_of(g).stop - plan.events_of(g).start == size for g in groups[:-1])


@given(moments, st.integers(1, 7), delays)
def test_feedback_comes_once_after_its_prediction_and_steps_are_in_order_of_time(
    times: list[float], size: int, delay: Delay
) -> None:
    plan = planned(stream(times), ReplayOptions(per_request=size, delay=delay))
    steps = list(plan.steps())
    assert [s.time for s in steps] == sorted(s.time for s in steps)
    place = {(s.group, s.is_feedback): at for at, s in enumerate(steps)}
    assert len(place) == len(steps) == 2 * len(plan)
    assert all(place[g, False] < place[g, True] for g in range(len(plan)))


@given(moments, st.integers(1, 7))
def test_without_delay_feedback_comes_before_the_next_prediction(times: list[float], size: int) -> None:
    plan = planned(stream(times), ReplayOptions(per_request=size))
    assert [(s.group, s.is_feedback) for s in plan.steps()] == [
        (g, tells) for g in range(len(plan)) for tells in (False, True)
    ]


@given(moments.filter(bool), st.integers(1, 7), st.floats(0.001, 1e5))
def test_a_request_leaves_when_its_last_event_has_happened(times: list[float], size: int, unit: float) -> None:
    plan = planned(stream(times), ReplayOptions(per_request=size, time_unit=unit))
    last = [times[plan.events_of(g).stop - 1] for g in range(len(plan))]
    assert plan.predict_at == pytest.approx([(t - times[0]) * unit for t in last])


def test_at_equal_times_feedback_comes_before_the_next_prediction() -> None:
    plan = planned(stream([0.0, 1.0, 2.0]), ReplayOptions(per_request=1, delay=Delay(1.0)))
    assert [(s.group, s.is_feedback) for s in plan.steps()] == [
        (0, False), (0, True), (1, False), (1, True), (2, False), (2, True),
    ]  # fmt: skip


def test_delays_depend_on_the_seed_and_have_the_given_mean() -> None:
    events, options = stream([0.0] * 4000), ReplayOptions(per_request=1, delay=Delay.parse("exp:1h"))
    one, same, other = (planned(events, options, seed) for seed in (1, 1, 2))
    assert (one.feedback_at == same.feedback_at).all()
    assert (one.feedback_at != other.feedback_at).any()
    assert float((one.feedback_at - one.predict_at).mean()) == pytest.approx(3600, rel=0.05)


def test_the_first_event_of_any_edge_is_the_start() -> None:
    early, late = stream([5.0, 7.0]), stream([6.0, 9.0])
    assert first_event_time([late, early, stream([])]) == 5.0
    assert speed_for([early, late], ReplayOptions(time_unit=60.0), 10.0) == 24.0


@given(st.floats(0.001, 1e6))
def test_a_speed_is_a_factor(factor: float) -> None:
    assert parse_speed(f"{factor:f}x") == pytest.approx(factor, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("30", 30), ("5m", 300), ("1.5h", 5400), ("2 d", 172_800), (".5w", 302_400)]
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration("delay", text) == seconds


@pytest.mark.parametrize("text", ["", "fast", "0", "0x", "-3x", "x", "1e3x", "nanx"])
def test_an_invalid_speed_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidValue, match=r"^speed: found .*; allowed: max, or a multiple of real time, such as 100x$"
    ):
        parse_speed(text)


@pytest.mark.parametrize("text", ["", "soon", "5x", "-1s", "exp:", "exp:x", "normal:1h", "1h2m"])
def test_an_invalid_delay_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^delay: found "):
        Delay.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"per_request": 0},
        {"connections": 0},
        {"batch_size": 1.5},
        {"patience": -1.0},
        {"speed": 0.0},
        {"time_unit": -1.0},
    ],
)
def test_invalid_options_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=f"^{next(iter(wrong))}: found "):
        ReplayOptions(**wrong)  # type: ignore[arg-type]


def test_steps_of_a_plan_are_many_and_cheap() -> None:
    plan = planned(stream(list(map(float, range(10_000)))), ReplayOptions(per_request=3, delay=Delay(7.0)))
    assert all(a.time <= b.time for a, b in pairwise(plan.steps()))
