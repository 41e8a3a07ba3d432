"""Frames hold what changed and what happened between two states of a fleet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.monitoring.frames import latest_state, make_frame, merge_frames
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

from .test_history import sequences

HARMFUL = Link(state="excluded: worse than alone by 40%")


def view(alive: bool = True, same_schema: bool = True, **vitals: Any) -> EdgeView:
    return EdgeView(region="DE", alive=alive, same_schema=same_schema, vitals=Vitals(**vitals))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (None, view(), ["joined"]),
        (view(), view(batches=5), []),
        (view(), view(alive=False), ["down"]),
        (view(alive=False), view(), ["up"]),
        (view(), view(same_schema=False), ["schema_differs"]),
        (view(same_schema=False), view(), ["schema_matches"]),
        (view(), view(neighbours=("x",)), ["neighbour_added"]),
        (view(neighbours=("x",)), view(neighbours=("y",)), ["neighbour_added", "neighbour_removed"]),
        (
            view(neighbours=("x",), links={"x": Link(share=0.3)}),
            view(neighbours=("x",), links={"x": Link(share=0.01)}),
            ["neighbour_faded"],
        ),
        (view(links={"x": Link(share=0.3)}), view(links={"x": Link(share=0.0)}), []),
        (view(links={"x": Link(state="mixed")}), view(links={"x": HARMFUL}), ["peer_excluded"]),
        (view(), view(links={"x": HARMFUL}), ["peer_excluded"]),
        (view(links={"x": HARMFUL}), view(links={"x": HARMFUL}, batches=1), []),
        (view(links={"x": HARMFUL}), view(links={"x": Link()}), ["exclusion_ended"]),
        (view(links={"x": HARMFUL}), view(links={"x": Link(state="down")}), []),
        (view(links={"x": Link(refused=1)}), view(links={"x": Link(refused=2)}), ["model_refused"]),
    ],
)
def test_a_frame_has_the_events_between_two_states(before: EdgeView | None, after: EdgeView, kinds: list[str]) -> None:
    others = {"other": view()}
    frame = make_frame(others | ({} if before is None else {"a": before}), others | {"a": after}, 7.0)
    assert [event.kind for event in frame.events] == kinds
    assert all(event.edge == "a" and event.time == 7.0 for event in frame.events)
    assert list(frame.edges) == ["a"]
    assert all(event.describe().startswith("a ") for event in frame.events)


def test_the_event_of_an_exclusion_says_why() -> None:
    frame = make_frame({"a": view()}, {"a": view(links={"x": HARMFUL})}, 7.0)
    assert [event.describe() for event in frame.events] == ["a excluded x: worse than alone by 40%"]


def test_the_first_frame_has_all_edges_and_no_events() -> None:
    frame = make_frame({}, {"a": view(), "b": view()}, 1.0)
    assert set(frame.edges) == {"a", "b"}
    assert frame.events == ()


@given(sequences.filter(lambda some: len(some) >= 2), st.data())
def test_merged_frames_lead_where_they_led_one_by_one(some: list[dict[str, EdgeView]], data: st.DataObject) -> None:
    frames, state = [], dict[str, EdgeView]()
    for number, one in enumerate(some):
        frames.append(make_frame(state, one, float(number)))
        state.update(one)
    at = data.draw(st.integers(0, len(frames) - 2))
    fewer = [*frames[:at], merge_frames(frames[at], frames[at + 1]), *frames[at + 2 :]]
    assert latest_state(fewer) == latest_state(frames) == state
    assert [e for f in fewer for e in f.events] == [e for f in frames for e in f.events]
