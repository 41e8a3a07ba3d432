"""Frames say what happened between two states of a fleet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.monitoring.frames import merge, step
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

from .test_history import rebuilt, sequences


def seen(region: str = "DE", alive: bool = True, mixes: bool = True, **vitals: Any) -> EdgeView:
    return EdgeView(region=region, alive=alive, mixes=mixes, vitals=Vitals(**vitals))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (None, seen(), ["joined"]),
        (seen(), seen(batches=5), []),
        (seen(), seen(alive=False), ["left"]),
        (seen(alive=False), seen(), ["back"]),
        (seen(), seen(mixes=False), ["schema"]),
        (seen(), seen(neighbours=("x",)), ["linked"]),
        (seen(neighbours=("x",)), seen(neighbours=("y",)), ["linked", "unlinked"]),
        (
            seen(neighbours=("x",), links={"x": Link(share=0.3)}),
            seen(neighbours=("x",), links={"x": Link(share=0.01)}),
            ["faded"],
        ),
        (seen(links={"x": Link(share=0.3)}), seen(links={"x": Link(share=0.0)}), []),
        (seen(links={"x": Link(refused=1)}), seen(links={"x": Link(refused=2)}), ["refused"]),
    ],
)
def test_a_step_tells_what_has_happened(before: EdgeView | None, after: EdgeView, kinds: list[str]) -> None:
    others = {"other": seen()}
    frame = step(others | ({} if before is None else {"a": before}), others | {"a": after}, 7.0)
    assert [event.kind for event in frame.events] == kinds
    assert all(event.edge == "a" and event.time == 7.0 for event in frame.events)
    assert list(frame.edges) == ["a"]


def test_the_first_frame_has_all_edges_and_no_events() -> None:
    frame = step({}, {"a": seen(), "b": seen()}, 1.0)
    assert set(frame.edges) == {"a", "b"}
    assert frame.events == ()


@given(sequences.filter(lambda some: len(some) >= 2), st.data())
def test_merged_frames_lead_where_they_led_one_by_one(some: list[dict[str, EdgeView]], data: st.DataObject) -> None:
    frames, state = [], dict[str, EdgeView]()
    for number, one in enumerate(some):
        frames.append(step(state, one, float(number)))
        state.update(one)
    at = data.draw(st.integers(0, len(frames) - 2))
    fewer = [*frames[:at], merge(frames[at], frames[at + 1]), *frames[at + 2 :]]
    assert rebuilt(fewer) == rebuilt(frames) == state
    assert [e for f in fewer for e in f.events] == [e for f in frames for e in f.events]
