"""The page in a real browser, with the keyboard: few Tab stops, and arrow keys inside of lists and tables."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.monitoring.synthetic import states

from .browser import known, until
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
MAX_STOPS = 20  # for Tab, on the whole page


def focused(page: "Page") -> str:
    """Return the text of the focused element."""
    return str(page.evaluate("document.activeElement.textContent"))


def press(page: "Page", *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return focused(page)


@pytest.mark.parametrize("edges", [6, 60])
def test_tab_has_few_stops_however_much_is_listed(visit: Visit, edges: int) -> None:
    with Served() as server:
        for time, state in states(edges, 60):
            server.add(time, state)
        page = visit(server)
        page.locator("#churn").check()
        until(page, "document.querySelectorAll('#events button').length > 15")
        page.locator("#churn").blur()
        stops: dict[str, int] = {}
        for _ in range(200):
            page.keyboard.press("Tab")
            inside = page.evaluate(
                "document.activeElement === document.body ? '' : "
                "document.activeElement.closest('ol, thead, tbody, main, body').tagName"
            )
            if not inside:
                break
            stops[inside] = stops.get(inside, 0) + 1
        assert stops["OL"] == 1
        assert stops["THEAD"] == stops["TBODY"] == 2, "one in each of two tables"
        assert sum(stops.values()) <= MAX_STOPS
        page.close()


def test_arrow_keys_move_through_the_events_and_enter_shows_the_time_of_one(visit: Visit, served: Served) -> None:
    events = [event for frame in served.history.since(0.0) for event in frame.events]
    page = visit(served)
    buttons = page.locator("#events button").all_text_contents()
    page.locator("#events button").first.focus()
    assert press(page, "ArrowUp") == buttons[0], "there is nothing above the first"
    assert press(page, "ArrowDown", "ArrowDown") == buttons[2]
    assert press(page, "ArrowUp") == buttons[1]
    assert press(page, "End") == buttons[-1]
    assert press(page, "ArrowDown") == buttons[-1]
    page.keyboard.press("Enter")
    until(page, f"alphaedge.time === {events[0].time!r}")
    assert press(page, "Tab", "Shift+Tab") == buttons[-1], "Tab returns to the one used last"
    assert press(page, "Home") == buttons[0]


def test_the_focus_stays_when_events_are_added(visit: Visit, served: Served) -> None:
    page = visit(served)
    until(page, "alphaedge.status === 'live'")
    page.locator("#events button").first.focus()
    before = press(page, "ArrowDown")
    number = known(page, "events")
    for time, state in list(states(6, 60))[20:]:
        served.add(time, state)
    until(page, f"alphaedge.events > {number}")
    until(page, f"document.querySelectorAll('#events button').length > {number}")
    assert focused(page) == before
    assert page.locator("#events button[tabindex='0']").count() == 1


def test_arrow_keys_move_through_a_table_and_its_heading(visit: Visit, served: Served) -> None:
    page = visit(served)
    headings = page.locator("#links thead button").all_text_contents()
    page.locator("#links thead button").first.focus()
    assert press(page, "ArrowRight", "ArrowRight") == headings[2]
    assert press(page, "End") == headings[-1]
    assert press(page, "Home") == headings[0]
    rows = [row.locator("button").all_text_contents() for row in page.locator("#links tbody tr").all()]
    assert press(page, "Tab") == rows[0][0]
    assert press(page, "ArrowDown") == rows[1][0]
    assert press(page, "ArrowRight") == rows[1][1]
    assert press(page, "ArrowDown") == rows[2][1]
    assert press(page, "End") == rows[-1][1]
    page.keyboard.press("Enter")
    until(page, f"alphaedge.selected === {rows[-1][1]!r}")
