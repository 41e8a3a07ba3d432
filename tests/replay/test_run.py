"""A replay in virtual time: when requests are sent, what an outage costs, and that nothing is lost silently."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from alphaedge import InvalidValue, Stream
from alphaedge.replay.options import Delay, ReplayOptions
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import Progress, Replay, replay

from .virtual_time import FakeEdge, now, run, stream

EVENTS = stream([float(t) for t in range(100)])  # one a second
CALM = ReplayOptions(speed=1.0, per_request=5, batch_size=10)
FAST = ReplayOptions(per_request=5, batch_size=10, connections=1)


def replayed(edge: FakeEdge, options: ReplayOptions, events: Stream = EVENTS) -> ReplayResult:
    return run(_replayed(edge, options, events))


async def _replayed(edge: FakeEdge, options: ReplayOptions, events: Stream) -> ReplayResult:
    return await replay({"berlin": events}, {"berlin": edge}, options, task="classify")


def predicted(edge: FakeEdge) -> list[float]:
    return sorted(event for _, events in edge.predict_requests for event in events)


def test_an_open_loop_sends_requests_and_feedback_as_planned() -> None:
    edge = FakeEdge()
    found = replayed(edge, ReplayOptions(speed=2.0, per_request=5, delay=Delay(30.0)))
    assert [t for t, _ in edge.predict_requests] == pytest.approx([(5 * g + 4) / 2 for g in range(20)])
    assert [t for t, _ in edge.feedback_requests] == pytest.approx([(5 * g + 4 + 30) / 2 for g in range(20)])
    assert found.total.feedback.accepted == found.total.events == 100
    assert found.delivered
    assert found.seconds == pytest.approx((99 + 30) / 2 + 0.01)


def test_a_closed_loop_over_one_connection_sends_feedback_before_the_next_request() -> None:
    edge = FakeEdge()
    found = replayed(edge, FAST)
    asked, heard = [t for t, _ in edge.predict_requests], [t for t, _ in edge.feedback_requests]
    assert all(a < h < b for a, h, b in zip(asked, heard, [*asked[1:], 99.0], strict=True))
    assert found.seconds == pytest.approx(40 * 0.01)
    assert found.total.per_second == pytest.approx(20 / 0.4)
    assert found.notes == ()


def test_a_closed_loop_keeps_the_order_of_delayed_labels() -> None:
    edge = FakeEdge()
    replayed(edge, ReplayOptions(per_request=5, connections=1, delay=Delay(22.0)))
    first = {edge.ids[ids[0]]: when for when, ids in edge.feedback_requests}
    for when, events in edge.predict_requests:
        known = [event for event, sent in first.items() if sent < when]
        assert known == [e for e in range(0, 100, 5) if e + 4 + 22 <= events[-1]]


def test_labels_reach_the_predictions_that_they_belong_to() -> None:
    edge = FakeEdge()
    replayed(edge, ReplayOptions(per_request=3, connections=7, delay=Delay(10.0, exponential=True)))
    assert {edge.ids[i]: label for i, label in edge.labels.items()} == {float(e): float(e % 2) for e in range(100)}


def test_a_stall_is_charged_to_every_request_that_was_planned_during_it() -> None:
    """One request takes 20 seconds; those behind it wait, and their latency counts from when they were planned."""
    edge = FakeEdge(answer_seconds=lambda t: 20.0 if 29.5 <= t < 30.5 else 0.001)
    found = replayed(edge, ReplayOptions(speed=1.0, per_request=1, connections=1, batch_size=10))
    total = found.total
    assert total.service.p95 == pytest.approx(1.0, abs=0.1)
    assert total.latency.p95 is not None
    assert total.latency.p95 > 10_000
    assert total.latency.max == pytest.approx(20_000)
    assert total.queued == pytest.approx(20, abs=2)
    assert any("waited for a free connection" in note for note in found.notes)
    assert not any("fell behind" in note for note in found.notes)
    roomy = replayed(
        FakeEdge(answer_seconds=lambda t: 20.0 if 29.5 <= t < 30.5 else 0.001),
        ReplayOptions(speed=1.0, per_request=1, connections=30),
    )
    assert roomy.total.queued == 0
    assert roomy.total.latency.p95 == pytest.approx(1.0, abs=0.1)


def test_a_note_says_that_the_load_generator_fell_behind() -> None:
    found = replayed(FakeEdge(busy_seconds=0.4), ReplayOptions(speed=2.0, per_request=1, connections=50))
    assert found.generator_lag.p99 is not None
    assert found.generator_lag.p99 > 100
    assert any("the load generator fell behind" in note for note in found.notes)
    assert not any("fell behind" in note for note in replayed(FakeEdge(), CALM).notes)


@pytest.mark.parametrize("options", [CALM, FAST, ReplayOptions(per_request=5, connections=3, delay=Delay(8.0))])
@pytest.mark.parametrize("loses_answers", [False, True])
def test_an_edge_that_comes_back_loses_nothing(options: ReplayOptions, loses_answers: bool) -> None:
    outage = (30.2, 45.0) if options.speed else (0.0305, 9.0)
    edge = FakeEdge(down=[outage], loses_answers=loses_answers)
    found = replayed(edge, options)
    feedback = found.total.feedback
    assert found.delivered
    assert (found.total.failures, feedback.undelivered) == (0, 0)
    assert feedback.accepted + feedback.known == found.total.events == 100
    assert {edge.ids[i] for i in edge.labels} == set(map(float, range(100)))
    assert found.total.retries > 0
    assert found.total.latency.max is not None
    assert found.total.latency.max > 5000


@given(
    st.lists(st.tuples(st.floats(0, 25), st.floats(0.01, 5)), max_size=4),
    st.sampled_from([None, 4.0, 20.0]),
    st.integers(1, 4),
    st.sampled_from([Delay(), Delay(5.0), Delay(20.0, exponential=True)]),
    st.booleans(),
)
def test_after_any_outages_every_event_has_a_prediction_and_feedback(
    outages: list[tuple[float, float]], speed: float | None, connections: int, delay: Delay, loses_answers: bool
) -> None:
    edge = FakeEdge(down=[(start, start + length) for start, length in outages], loses_answers=loses_answers)
    found = replayed(
        edge, ReplayOptions(speed=speed, connections=connections, delay=delay, per_request=7, patience=100.0)
    )
    assert found.delivered
    assert predicted(edge) == list(map(float, range(100)))
    assert {edge.ids[i]: label for i, label in edge.labels.items()} == {float(e): float(e % 2) for e in range(100)}


def test_a_closed_loop_gives_up_an_edge_that_stays_down_and_counts_what_is_missing() -> None:
    edge = FakeEdge(down=[(0.055, 1e9)])
    found = replayed(edge, ReplayOptions(per_request=5, connections=2, patience=20.0, delay=Delay(1e6)))
    (one,) = found.edges
    assert one.gave_up is not None
    assert not found.delivered
    assert one.failures == 2
    assert one.events == one.feedback.undelivered == len(predicted(edge)) > 0
    assert found.seconds == pytest.approx(20, abs=2.5)
    assert any("given up" in note for note in found.notes)


def test_an_open_loop_goes_on_without_an_edge_and_counts_what_it_missed() -> None:
    edge = FakeEdge(down=[(20.5, 70.5)])
    found = replayed(edge, ReplayOptions(speed=1.0, per_request=1, patience=5.0, delay=Delay(3.0)))
    total = found.total
    assert total.events + total.failures == 100
    assert 40 <= total.failures <= 50
    assert total.feedback.accepted == total.events
    assert total.feedback.undelivered == 0  # what was predicted before the outage got its feedback after it
    assert not found.delivered
    assert sum(found.edges[0].errors.values()) == total.failures
    assert found.seconds == pytest.approx(102, abs=0.1)


def test_an_open_loop_with_a_dead_edge_ends_when_its_time_has_passed() -> None:
    found = replayed(
        FakeEdge(down=[(50.5, 1e9)]), ReplayOptions(speed=1.0, per_request=1, patience=5.0, delay=Delay(10.0))
    )
    assert found.seconds < 120
    assert found.total.feedback.undelivered == 10
    assert any("10 labels were not delivered" in note for note in found.notes)


def test_a_refused_request_fails_and_the_others_go_on() -> None:
    edge = FakeEdge(refuses=lambda what, values: 400 if what == "predict" and 42.0 in values else 0)
    found = replayed(edge, FAST)
    assert (found.total.failures, found.total.events, found.total.retries) == (1, 95, 0)
    assert found.edges[0].errors == {"http://edge: 400: refused": 1}
    assert found.total.feedback.accepted == 95
    assert not found.delivered


def test_a_refused_label_does_not_take_others_with_it() -> None:
    """They are overdue after an outage and sent together; the edge refuses a label of 7."""
    events = stream([float(t) for t in range(20)], labels=[7.0 if e == 3 else float(e % 2) for e in range(20)])
    edge = FakeEdge(down=[(5.5, 9.5)], refuses=lambda what, labels: 400 if what == "feedback" and 7.0 in labels else 0)
    options = ReplayOptions(speed=1.0, per_request=1, delay=Delay(3.0), batch_size=5)
    found = replayed(edge, options, events)
    assert found.total.feedback.accepted == 19
    assert found.total.feedback.undelivered == 1


def test_labels_can_be_altered_and_scores_use_the_true_ones() -> None:
    def lies(edge: str, first: int, labels: NDArray[np.float32]) -> NDArray[np.float32]:
        assert (edge, labels.tolist()) == ("berlin", [float(e % 2) for e in range(first, first + len(labels))])
        return 1 - labels

    async def main() -> tuple[FakeEdge, ReplayResult, ReplayResult]:
        edge = FakeEdge()
        flipped = await replay({"berlin": EVENTS}, {"berlin": edge}, FAST, task="classify", alter_labels=lies)
        return edge, flipped, await replay({"berlin": EVENTS}, {"berlin": FakeEdge()}, FAST, task="classify")

    edge, flipped, honest = run(main())
    assert {edge.ids[i]: label for i, label in edge.labels.items()} == {float(e): float(1 - e % 2) for e in range(100)}
    assert [p.score for p in flipped.edges[0].series] == [p.score for p in honest.edges[0].series]


def test_a_limit_ends_the_predictions_and_sends_all_feedback_at_once() -> None:
    edge = FakeEdge()
    found = replayed(edge, ReplayOptions(speed=1.0, per_request=5, delay=Delay(1000.0), limit_seconds=50.0))
    assert found.total.events == found.total.feedback.accepted == 50
    assert found.delivered
    assert not found.stopped
    assert len(edge.feedback_requests) == 1
    assert found.seconds == pytest.approx(50, abs=5)
    assert replayed(FakeEdge(), ReplayOptions(limit_seconds=0.095, per_request=1, connections=1)).total.events == 5


def test_a_limit_holds_for_an_edge_that_is_down_too() -> None:
    options = ReplayOptions(per_request=5, limit_seconds=4.0, patience=30.0)
    found = replayed(FakeEdge(down=[(0.0, 5.0)]), options)
    assert found.seconds == pytest.approx(4, abs=1.1)
    assert found.total.events == 0


def test_stopping_leaves_no_task_behind_and_has_a_result() -> None:
    async def main() -> ReplayResult:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(42.2, stop.set)
        found = await replay(
            {"berlin": EVENTS}, {"berlin": FakeEdge()}, CALM, task="classify", stop=stop, on_progress=lambda _: None
        )
        assert now() == pytest.approx(42.2)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    found = run(main())
    assert found.stopped
    assert (found.total.events, found.total.feedback.accepted) == (40, 40)
    assert "stopped early: the numbers are of what was sent until then" in found.notes


def test_cancelling_leaves_no_task_behind_and_has_a_result() -> None:
    async def main() -> ReplayResult:
        whole = Replay({"berlin": EVENTS}, {"berlin": FakeEdge()}, CALM, task="classify")
        running = asyncio.create_task(whole.run(on_progress=lambda _: None))
        await asyncio.sleep(42.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return whole.result()

    found = run(main())
    assert found.stopped
    assert (found.total.events, found.seconds) == (40, pytest.approx(42.2))


def test_an_error_of_the_caller_is_raised_and_leaves_no_task_behind() -> None:
    def broken(_: Progress) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await replay({"b": EVENTS}, {"b": FakeEdge()}, CALM, task="classify", on_progress=broken)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_progress_goes_from_0_to_all_events_and_knows_the_time_left() -> None:
    seen: list[Progress] = []

    async def main() -> None:
        streams = {"berlin": EVENTS, "paris": stream([0.0, 50.0])}
        clients = {"berlin": FakeEdge(), "paris": FakeEdge()}
        await replay(streams, clients, CALM, task="classify", on_progress=seen.append)

    run(main())
    done = [sum(e.events for e in p.edges.values()) for p in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 102)
    assert all(p.seconds_left == pytest.approx(max(0.0, 99 - p.seconds)) for p in seen)
    assert seen[-1].edges["berlin"].undelivered == 0
    assert seen[-1].score is not None


def test_the_numbers_of_all_edges_are_sums_and_means() -> None:
    async def main() -> ReplayResult:
        streams = {"berlin": EVENTS, "paris": stream([float(t) for t in range(60)])}
        return await replay(streams, {n: FakeEdge() for n in streams}, FAST, task="classify")

    found = run(main())
    assert found.total.events == sum(e.events for e in found.edges) == 160
    assert found.total.latency.count == sum(e.latency.count for e in found.edges)
    assert found.total.score == pytest.approx(np.mean([e.score for e in found.edges]))
    assert [e.edge for e in found.edges] == ["berlin", "paris"]


def test_streams_without_an_edge_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(InvalidValue, match=r"^clients: found \['paris'\]; allowed: one for each of berlin$"):
            Replay({"berlin": EVENTS}, {"paris": FakeEdge()}, CALM, task="classify")

    run(main())


def test_a_stream_without_events_has_an_empty_result() -> None:
    found = replayed(FakeEdge(), CALM, stream([]))
    assert found.delivered
    assert (found.total.planned, found.total.score, found.total.latency.p50) == (0, None, None)
