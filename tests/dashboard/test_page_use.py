"""The page in a real browser: with a pointer, with keys, on a phone, light and dark."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.monitoring.synthetic import states

from .browser import DRAWN, known, overflow, until
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
Scheme = Literal["light", "dark"]
CANVASES = ("graph", "matrix", "scores", "latency")
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


def text(page: "Page", selector: str) -> str:
    return page.locator(selector).inner_text()


def test_the_selected_edge_is_highlighted_everywhere(visit: Visit, served: Served, complaints: list[str]) -> None:
    page = visit(served)
    before = {canvas: page.evaluate(f"document.getElementById('{canvas}').toDataURL()") for canvas in CANVASES}
    page.locator("#edges tbody th button", has_text="paris").click()
    until(page, "alphaedge.selected === 'paris'")
    until(page, "document.querySelector('#edges tr.chosen')")
    assert text(page, "#edges tr.chosen th") == "paris"
    assert page.locator("#edge").input_value() == "paris"
    assert text(page, "#latency-title") == "Latency of paris"
    assert "paris" in text(page, "#spoken")
    for canvas in CANVASES:
        assert page.evaluate(f"document.getElementById('{canvas}').toDataURL()") != before[canvas], canvas
    for row in page.locator("#links tbody tr").all_inner_texts():
        assert "paris" in row
    page.keyboard.press("Escape")
    until(page, "alphaedge.selected === null")
    assert complaints == []


def test_edges_can_be_selected_in_the_graph_with_keys_and_with_the_pointer(visit: Visit, served: Served) -> None:
    page = visit(served)
    graph = page.locator("#graph")
    graph.focus()
    page.keyboard.press("ArrowRight")
    until(page, "alphaedge.selected === 'berlin'")
    page.keyboard.press("ArrowRight")
    until(page, "alphaedge.selected === 'munich'")
    for _ in range(8):  # faster than it is drawn
        page.keyboard.press("ArrowLeft")
    until(page, "alphaedge.selected === 'oslo'")
    page.keyboard.press("Escape")
    until(page, "alphaedge.selected === null")
    box = graph.bounding_box()
    assert box is not None
    for y in range(0, 200, 8):  # the first edge is at the top of the circle, somewhere
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + y)
        if known(page, "selected"):
            break
    assert known(page, "selected") == "berlin"


def test_charts_have_tooltips(visit: Visit, served: Served, complaints: list[str]) -> None:
    page = visit(served)
    box = page.locator("#matrix").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip = page.locator("#matrix-panel .tooltip")
    assert tooltip.is_visible()
    assert "learns" in tooltip.inner_text() or "keeps" in tooltip.inner_text()
    page.mouse.move(0, 0)
    assert not tooltip.is_visible()
    page.locator("#latency").hover()
    assert "p99" in text(page, "#latency-panel .tooltip")
    assert complaints == []


def test_tables_can_be_sorted_and_show_more_rows_on_request(visit: Visit, served: Served) -> None:
    page = visit(served)
    page.locator("#edges thead button", has_text="Recent").click()
    assert page.locator("#edges th[aria-sort=descending]").count() == 1
    shown = [float(t) for t in page.locator("#edges tbody td:nth-child(8)").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    links = known(page, "links")
    assert page.locator("#links tbody tr").count() == 12 < links
    page.locator("#links-more").click()
    assert page.locator("#links tbody tr").count() == links
    assert not page.locator("#links-more").is_visible()


def test_events_are_numbered_like_their_flags_and_lead_to_their_time(visit: Visit, served: Served) -> None:
    events = [event for frame in served.history.since(0.0) for event in frame.events]
    page = visit(served)
    assert known(page, "events") == len(events)
    page.locator("#churn").check()
    until(page, f"document.querySelectorAll('#events li').length === {len(events)}")
    entries = page.locator("#events .count").all_text_contents()
    assert entries == [str(n) for n in range(len(events), 0, -1)]
    page.locator("#events button").last.click()
    until(page, f"alphaedge.time === {events[0].time!r}")
    assert page.locator("#events li.later").count() == sum(event.time > events[0].time for event in events)


@pytest.mark.parametrize("edges", [6, 60])
@pytest.mark.parametrize("width", [320, 390, 680, 1000])
def test_the_page_is_never_wider_than_the_window(visit: Visit, width: int, edges: int) -> None:
    with Served() as server:
        for time, state in states(edges, 8):
            server.add(time, state)
        page = visit(server, viewport={"width": width, "height": 800})
        assert overflow(page) <= 0
        page.locator("#edges tbody th button").nth(1).click()
        until(page, "alphaedge.selected !== null")
        assert overflow(page) <= 0
        if width < 700:
            lefts = page.evaluate("[...document.querySelectorAll('.panel')].map((p) => p.getBoundingClientRect().left)")
            assert len(set(lefts)) == 1, "one column"
        page.close()


def test_charts_have_the_resolution_of_the_screen(visit: Visit, served: Served) -> None:
    page = visit(served, **PHONE)
    for canvas in CANVASES:
        assert page.evaluate(f"(c => c.width === Math.round(2 * c.clientWidth))(document.getElementById('{canvas}'))")


def test_the_theme_is_the_systems_until_the_button_overrides_it(visit: Visit, served: Served) -> None:
    def ground(page: "Page") -> Any:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, page = visit(served, color_scheme="light"), visit(served, color_scheme="dark")
    assert ground(page) != ground(light)
    corner = "document.getElementById('matrix').toDataURL()"
    dark_chart = page.evaluate(corner)
    assert dark_chart != light.evaluate(corner), "charts are dark too"
    page.locator("#theme").click()
    assert ground(page) == ground(light)
    until(page, f"{corner} !== {dark_chart!r}")
    page.reload()
    until(page, DRAWN)
    assert ground(page) == ground(light), "it is remembered"
    page.emulate_media(color_scheme="light")
    page.locator("#theme").click()
    assert ground(page) != ground(light)


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_the_button_names_the_theme_that_it_switches_to(
    visit: Visit, served: Served, system: Scheme, other: Scheme
) -> None:
    page = visit(served, color_scheme=system)
    assert text(page, "#theme") == f"Switch to {other}"
    page.locator("#theme").click()
    assert text(page, "#theme") == f"Switch to {system}"
    page.emulate_media(color_scheme=other)
    page.locator("#theme").click()
    assert text(page, "#theme") == f"Switch to {other}"
    assert page.locator("#theme[aria-pressed]").count() == 0, "a changing name and a state would contradict each other"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("table", ["edges", "links"])
def test_a_table_that_is_cut_off_has_a_shadow_at_its_edge(
    visit: Visit, served: Served, table: str, scheme: str
) -> None:
    page = visit(served, **PHONE, color_scheme=scheme)
    region = page.locator(f"#{table}-panel .sideways")
    page.evaluate(f"document.getElementById('{table}').style.visibility = 'hidden'")  # only what is behind it

    def edges(left: int) -> tuple[bytes, bytes]:
        region.evaluate("(e, left) => { e.scrollLeft = left; }", left)
        region.scroll_into_view_if_needed()
        box = region.bounding_box()
        assert box is not None
        y, right = box["y"] + 40, box["x"] + box["width"]
        return (
            page.screenshot(clip={"x": box["x"], "y": y, "width": 12, "height": 40}),
            page.screenshot(clip={"x": right - 12, "y": y, "width": 12, "height": 40}),
        )

    first, middle, last = edges(0), edges(120), edges(10_000)
    assert first[1] != last[1], "at the right edge until the last column is there"
    assert first[0] != last[0], "at the left edge from the first column on"
    assert (middle[0], middle[1]) == (last[0], first[1]), "at both in between"
    assert region.get_attribute("tabindex") == "0"
    assert region.get_attribute("aria-label") == f"Table of {table}, scrolls sideways"


def test_reduced_motion_is_respected(visit: Visit, served: Served) -> None:
    moving = "getComputedStyle(document.getElementById('status'), '::before').animationName"
    still, page = visit(served, reduced_motion="reduce"), visit(served, reduced_motion="no-preference")
    until(page, "alphaedge.status === 'live'")
    until(still, "alphaedge.status === 'live'")
    assert page.evaluate(moving) == "breathe"
    assert still.evaluate(moving) == "none"


def test_everything_has_an_accessible_name(visit: Visit, served: Served) -> None:
    page = visit(served)
    unnamed = page.evaluate(
        """[...document.querySelectorAll("canvas, button, select, input, section, table, [role=region]")].filter((e) =>
            !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") && !e.labels?.length
            && !e.textContent.trim() && !e.hidden
        ).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("canvas:not([role])").count() == 0
    levels = page.evaluate("[...document.querySelectorAll('header h1, main h2')].map((h) => h.tagName)")
    assert levels == ["H1"] + ["H2"] * 9
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the fleet"
