"""A history gets coarser with age, and never wrong."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphaedge.monitoring.frames import Frame, latest_state
from alphaedge.monitoring.history import BYTES_PER_EVENT, History
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

from .synthetic import State, states

NAMES = ("a", "b", "c", "d")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

links = st.builds(Link, share=st.sampled_from([0.0, 0.01, 0.5]), refused=st.integers(0, 2))
vitals = st.builds(
    Vitals,
    recent=st.sampled_from([None, 0.5, 0.75]),
    neighbours=st.sets(st.sampled_from(NAMES)).map(lambda names: tuple(sorted(names))),
    links=st.dictionaries(st.sampled_from(NAMES), links),
)
views = st.builds(
    EdgeView, region=st.sampled_from(["DE", "FR"]), alive=st.booleans(), same_schema=st.booleans(), vitals=vitals
)
sequences = st.lists(st.dictionaries(st.sampled_from(NAMES), views, max_size=4), max_size=40)


def size(history: History) -> int:
    return sum(len(msgspec.json.encode(frame)) + 1 for frame in history.since(-math.inf))


def fed(history: History, some: Sequence[State], since: int = 0) -> dict[str, EdgeView]:
    """Add states a second apart; return the state that they lead to."""
    state: dict[str, EdgeView] = {}
    for number, one in enumerate(some):
        history.add(one, float(since + number))
        state.update(one)
    return state


@QUICK
@given(sequences, st.integers(2, 20), st.sampled_from([1500, 10_000, 2_000_000]))
def test_frames_lead_to_the_last_state_however_many_were_merged(
    some: list[State], max_frames: int, max_bytes: int
) -> None:
    history = History(max_bytes=max_bytes, max_frames=max_frames)
    state = fed(history, some)
    assert latest_state(history.since(-math.inf)) == state == history.state


@QUICK
@given(sequences, st.integers(2, 20), st.data())
def test_frames_until_a_time_and_those_since_lead_to_the_last_state(
    some: list[State], max_frames: int, data: st.DataObject
) -> None:
    history = History(max_frames=max_frames)
    received: list[Frame] = []
    stops = data.draw(st.integers(0, len(some)))
    for number, state in enumerate(some):
        frame = history.add(state, float(number))
        if number < stops and frame is not None:
            received.append(frame)
    last = received[-1].time if received else -math.inf
    assert latest_state([*received, *history.since(last)]) == history.state


@QUICK
@given(sequences, st.integers(1, 20), st.sampled_from([100, 3000, 10_000]))
def test_frames_stay_within_the_limits_unless_one_alone_is_larger(
    some: list[State], max_frames: int, max_bytes: int
) -> None:
    history = History(max_bytes=max_bytes, max_frames=max_frames)
    for number, state in enumerate(some):
        history.add(state, float(number))
        frames = history.since(-math.inf)
        assert len(frames) <= max_frames
        assert size(history) <= max_bytes or (len(frames) == 1 and not frames[0].events)


@QUICK
@given(sequences, st.integers(2, 20))
def test_times_only_go_up_even_if_the_clock_goes_back(some: list[State], max_frames: int) -> None:
    history = History(max_frames=max_frames)
    for number, state in enumerate(some):
        history.add(state, float(-number))
    times = [frame.time for frame in history.since(-math.inf)]
    assert times == sorted(set(times))


@QUICK
@given(sequences, sequences, st.integers(2, 20))
def test_a_history_that_is_opened_again_goes_on_where_it_was(
    tmp_path_factory: pytest.TempPathFactory, before: list[State], after: list[State], max_frames: int
) -> None:
    file = tmp_path_factory.mktemp("history") / "frames.jsonl"
    first = History(file, max_frames=max_frames)
    state = fed(first, before)
    second = History(file, max_frames=max_frames)
    assert second.since(-math.inf) == first.since(-math.inf)
    state |= fed(second, after, since=len(before))
    assert History(file, max_frames=max_frames).state == second.state == state


@QUICK
@given(sequences, st.data())
def test_a_file_that_is_cut_anywhere_gives_the_frames_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, some: list[State], data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("history") / "frames.jsonl"
    history = History(file)
    fed(history, some)
    whole = file.read_bytes() if file.exists() else b""
    kept = whole[: data.draw(st.integers(0, len(whole)))]
    file.write_bytes(kept)
    lines = kept.count(b"\n")
    again = History(file)
    assert again.since(-math.inf) == history.since(-math.inf)[:lines]
    fed(again, [{"a": EdgeView(region="DE", alive=True, vitals=Vitals(batches=7))}], since=1000)
    assert History(file).state == again.state


@pytest.mark.parametrize(
    "rubbish", [b"\xff\xfe\n", b"{}\n", b"[1, 2]\n", b'{"time": 1.0, "edges": {"x": 3}}\n', b"\0" * 100]
)
def test_rubbish_at_the_end_of_the_file_is_ignored_and_overwritten(tmp_path: Path, rubbish: bytes) -> None:
    file = tmp_path / "frames.jsonl"
    history = History(file)
    for time, state in states(6, 3):
        history.add(state, time)
    file.write_bytes(file.read_bytes() + rubbish)
    again = History(file)
    assert again.since(-math.inf) == history.since(-math.inf)
    again.add({"new": EdgeView(region="DE", alive=True)}, 2e9)
    assert rubbish not in file.read_bytes()
    assert History(file).state == again.state


def test_recent_frames_are_fine_and_old_ones_coarse() -> None:
    history = History(max_frames=60)
    for time, state in states(6, 600, start=0.0, every=1.0):
        history.add(state, time)
    times = [frame.time for frame in history.since(-math.inf)]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert times[0] == 0.0
    assert gaps[-10:] == [1.0] * 10
    assert max(gaps) == max(gaps[:10]) > 20
    shares = [gap / (times[-1] - time) for gap, time in zip(gaps, times, strict=False) if gap > 1]
    assert max(shares) < 8 * min(shares)
    assert len(history.since(-math.inf)[0].edges) == 5, "the first frame has all edges of its time"


def test_an_unchanged_state_is_no_frame(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    history = History(file)
    state = {"a": EdgeView(region="DE", alive=True)}
    assert history.add({}, 0.0) is None
    assert history.add(state, 1.0) is not None
    before = file.read_bytes()
    assert history.add(dict(state), 2.0) is None
    assert file.read_bytes() == before


def test_an_edge_that_a_state_does_not_name_stays_as_it_was() -> None:
    history = History()
    a, b = EdgeView(region="DE", alive=True), EdgeView(region="FR", alive=True)
    history.add({"a": a, "b": b}, 1.0)
    assert history.add({"a": a}, 2.0) is None
    assert history.state == {"a": a, "b": b}


def test_most_frames_are_only_appended_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    history = History(file, max_frames=40)
    rewritten = appended = 0
    for time, state in states(6, 400):
        before = file.read_bytes() if file.exists() else b""
        history.add(state, time)
        if file.read_bytes().startswith(before):
            appended += 1
        else:
            rewritten += 1
    assert appended > 8 * rewritten > 0


def test_old_events_do_not_crowd_out_states() -> None:
    history = History(max_bytes=40_000, max_frames=30)
    for time, state in states(6, 3000):
        history.add(state, time)
    frames = history.since(-math.inf)
    assert sum(len(frame.events) for frame in frames) < 40_000 // BYTES_PER_EVENT + 100
    assert frames[-1].events or frames[-2].events or frames[-3].events, "the newest are kept"
    assert len(frames) >= 5


def test_a_frame_that_could_not_be_written_is_written_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    history = History(folder / "frames.jsonl")
    steps = list(states(6, 3))
    with pytest.raises(FileNotFoundError):
        history.add(steps[0][1], steps[0][0])
    assert len(history.since(-math.inf)) == 1
    folder.mkdir()
    history.add(steps[1][1], steps[1][0])
    assert History(folder / "frames.jsonl").since(-math.inf) == history.since(-math.inf)
