"""The page in a real browser: it shows what the server sends, through restarts of either."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from alphaedge.monitoring.history import History
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals
from tests.monitoring.synthetic import START, states

from .browser import DRAWN, colours_in, known, until
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
CANVASES = ("graph", "matrix", "scores", "latency")


def text(page: "Page", selector: str) -> str:
    return page.locator(selector).inner_text()


def more(server: Served, steps: int, *, after: int = 20) -> None:
    """The fleet goes on."""
    for time, state in list(states(6, after + steps))[after:]:
        server.add(time, state)


def test_everything_is_drawn_without_errors_and_without_foreign_requests(
    visit: Visit, served: Served, complaints: list[str]
) -> None:
    page = visit(served)
    for canvas in CANVASES:
        assert colours_in(page, canvas) > 10, canvas
    assert (known(page, "edges"), known(page, "frames")) == (6, 20)
    assert text(page, "#seen-from") == "seen from berlin"
    assert text(page, "#total-alive") == "6"
    assert text(page, "#total-batches") == str(sum(s.vitals.batches for s in served.history.state.values()))
    assert page.locator("#edges tbody tr").count() == 6
    assert known(page, "links") == sum(len(s.vitals.links) for s in served.history.state.values())
    until(page, "alphaedge.status === 'live'")
    assert complaints == []


def test_a_new_frame_shows_at_once(visit: Visit, served: Served, complaints: list[str]) -> None:
    page = visit(served)
    until(page, "alphaedge.status === 'live'")
    before = text(page, "#total-batches")
    for number in range(3):
        more(served, 1, after=20 + number)
        until(page, f"alphaedge.frames === {21 + number}")
    until(page, f"document.getElementById('total-batches').textContent !== '{before}'")
    until(page, f"alphaedge.time === {served.history.since(0.0)[-1].time!r}")
    assert complaints == []


def test_before_the_first_edge_the_panels_say_what_they_wait_for(visit: Visit, complaints: list[str]) -> None:
    with Served() as server:
        page = visit(server, drawn=False)
        until(page, "alphaedge.status === 'live'")
        assert text(page, "#graph-panel .empty") == "Waiting for the first edge"
        assert text(page, "#scores-panel .empty") == "Waiting for the first batch"
        server.add(START, {"berlin": EdgeView(region="DE", alive=True)})
        until(page, DRAWN)
        assert not page.locator("#graph-panel .empty").is_visible()
        assert page.locator("#scores-panel .empty").is_visible(), "there is an edge, but no batch"
        for time, state in states(6, 3, start=START + 1):
            server.add(time, state)
        until(page, "alphaedge.frames === 4")
        until(page, "!document.getElementById('scores-panel').classList.contains('waiting')")
        page.close()
    assert complaints == []


@pytest.mark.parametrize("remembers", [True, False], ids=["with its history", "without its history"])
def test_the_page_goes_on_after_a_restart_of_the_server(visit: Visit, served: Served, remembers: bool) -> None:
    page = visit(served)
    until(page, "alphaedge.status === 'live'")
    served.stop()
    until(page, "alphaedge.status === 'lost'")
    assert text(page, "#status") == "Connection lost, reconnecting"
    if not remembers:
        served.history = History()
    more(served, 5)
    served.start()
    until(page, "alphaedge.status === 'live'")
    until(page, "alphaedge.frames === 25")  # those from before the restart too
    more(served, 1, after=25)
    until(page, "alphaedge.frames === 26")
    assert text(page, "#status") == "Connected"
    until(page, f"alphaedge.time === {served.history.since(0.0)[-1].time!r}")


def test_a_restart_without_history_leaves_no_ghosts(visit: Visit, served: Served) -> None:
    page = visit(served)
    until(page, "alphaedge.status === 'live'")
    served.stop()
    served.history = History()
    served.add(START + 1000, {"berlin": EdgeView(region="DE", alive=True)})
    served.start()
    until(page, "alphaedge.frames === 21 && alphaedge.edges === 1")
    page.locator("#time").press("ArrowLeft")
    until(page, "alphaedge.edges === 6")


def test_the_time_slider_works_with_the_keyboard(visit: Visit, served: Served, complaints: list[str]) -> None:
    frames = served.history.since(0.0)
    page = visit(served)
    newest = text(page, "#total-batches")
    page.locator("#time").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    until(page, f"alphaedge.time === {frames[-4].time!r}")
    assert not known(page, "live")
    until(page, "document.getElementById('live').getAttribute('aria-pressed') === 'false'")
    until(page, f"document.getElementById('total-batches').textContent !== '{newest}'")
    more(served, 1)
    until(page, "alphaedge.frames === 21")
    assert known(page, "time") == frames[-4].time, "new frames do not move the chosen time"
    page.keyboard.press("Home")
    until(page, f"alphaedge.time === {frames[0].time!r}")
    assert known(page, "edges") == len(frames[0].edges)
    page.keyboard.press("End")
    until(page, "alphaedge.live")
    page.keyboard.press("ArrowLeft")
    until(page, "!alphaedge.live")
    page.locator("#live").click()
    until(page, "alphaedge.live")
    until(page, "document.getElementById('time').getAttribute('aria-valuetext').endsWith(', live')")
    assert complaints == []


def test_the_state_at_any_time_is_the_servers(visit: Visit, served: Served) -> None:
    page = visit(served)
    expected = dict(states(6, 20))
    found = page.evaluate(
        """async () => {
            const { emptyHistory, loadFleet, stateAfter } = await import("/dashboard/state.js");
            const fleet = await (await fetch("fleet")).json();
            const { frames } = loadFleet(emptyHistory(), fleet);
            return frames.map(({ time }, i) => [time, [...stateAfter(frames, i)].map(([name, edge]) => [
                name, edge.region, edge.alive, edge.vitals.batches, edge.vitals.links.map((l) => [l.peer, l.share]),
            ])]);
        }"""
    )
    for time, edges in found:
        assert {name: rest for name, *rest in edges} == {
            name: [s.region, s.alive, s.vitals.batches, [[p, link.share] for p, link in s.vitals.links.items()]]
            for name, s in expected[time].items()
        }


def test_events_that_a_merged_frame_repeats_are_listed_once(visit: Visit, served: Served) -> None:
    page = visit(served)
    events = page.evaluate(
        """async () => {
            const { emptyHistory, addFrame } = await import("/dashboard/state.js");
            const known = emptyHistory();
            const down = (time) => ({ time, edge: "a", kind: "down" });
            addFrame(known, { time: 1, edges: {}, events: [] });
            addFrame(known, { time: 2, edges: {}, events: [down(2)] });
            addFrame(known, { time: 2, edges: {}, events: [down(2)] });
            addFrame(known, { time: 4, edges: {}, events: [down(2), down(3), down(4)] });
            return known.events.map((event) => [event.number, event.time]);
        }"""
    )
    assert events == [[1, 2], [2, 3], [3, 4]]


def test_memory_is_bounded_however_long_the_page_is_open(visit: Visit, served: Served) -> None:
    page = visit(served)
    largest, ordered, edges = page.evaluate(
        """async () => {
            const { emptyHistory, addFrame, stateAfter } = await import("/dashboard/state.js");
            const known = emptyHistory();
            let largest = 0;
            for (let i = 0; i < 5000; i += 1) {
                const edge = { region: "DE", alive: true, vitals: { batches: i } };
                addFrame(known, { time: i, edges: { [`e${i % 7}`]: edge }, events: [] });
                largest = Math.max(largest, known.frames.length);
            }
            const times = known.frames.map((frame) => frame.time);
            const state = [...stateAfter(known.frames, known.frames.length - 1)];
            const ordered = times.every((t, i) => (i ? t > times[i - 1] : t === 0));
            return [largest, ordered, state.map(([name, edge]) => [name, edge.vitals.batches])];
        }"""
    )
    assert largest <= 600
    assert ordered
    assert dict(edges) == {f"e{i % 7}": i for i in range(4993, 5000)}


def test_the_page_asks_for_the_token_until_it_is_right_and_keeps_it_for_the_tab(visit: Visit) -> None:
    with Served("s3cret") as server:
        for time, state in states(6, 5):
            server.add(time, state)
        page = visit(server, drawn=False)
        dialog = page.locator("#token")
        dialog.wait_for()
        assert known(page, "frames") == 0
        page.locator("#token-field").fill("wrong")
        page.keyboard.press("Enter")
        page.locator("#token [role=alert]", has_text="not accepted").wait_for()
        page.locator("#token-field").fill("s3cret")
        page.keyboard.press("Enter")
        until(page, DRAWN)
        assert not dialog.is_visible()
        until(page, "alphaedge.status === 'live'")
        assert "s3cret" not in page.url
        page.reload()
        until(page, f"{DRAWN} && alphaedge.status === 'live'")
        assert not dialog.is_visible()


def test_names_are_never_taken_for_markup(visit: Visit, complaints: list[str]) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    links = {nasty: Link(share=0.5, pulled=START)}
    state = {
        "a": EdgeView(region="<b>DE</b>", alive=True, vitals=Vitals(recent=0.5, neighbours=(nasty,), links=links)),
        nasty: EdgeView(
            region="__proto__", alive=True, vitals=Vitals(recent=0.5, links={"__proto__": Link(share=0.1)})
        ),
        "constructor": EdgeView(region="DE", alive=False),
        "__proto__": EdgeView(region="DE", alive=True),
    }
    with Served() as server:
        server.add(START, {"a": state["a"]})
        server.add(START + 1, state)
        page = visit(server)
        page.locator("#edge").select_option(nasty)
        until(page, "alphaedge.selected !== null")
        assert nasty in page.locator("#edges tbody th").all_inner_texts()
        assert f"{nasty} joined" in (page.locator("#events").text_content() or "")
        assert (known(page, "edges"), known(page, "links")) == (4, 2)
        assert page.locator("main img, main b").count() == 0
        page.close()
    assert complaints == []


def test_two_hundred_edges_are_drawn_and_updated(
    visit: Visit, complaints: list[str], record_property: Callable[[str, Any], None]
) -> None:
    steps = list(states(200, 8))
    with Served() as server:
        for time, state in steps[:4]:
            server.add(time, state)
        page = visit(server)
        until(page, "alphaedge.status === 'live'")
        for time, state in steps[4:]:
            server.add(time, state)
            until(page, f"alphaedge.time === {time!r}")
        updates = known(page, "updates")
        page.locator("#edge").select_option("edge-042")
        until(page, f"alphaedge.updates > {updates}")
        record_property("update_ms", known(page, "lastUpdateMs"))
        assert known(page, "edges") == 200
        assert known(page, "links") > 1000
        for canvas in CANVASES:
            assert colours_in(page, canvas) > 10, canvas
        page.close()
    assert complaints == []
