"""Fixtures for tests of the page."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.monitoring.synthetic import states

from .browser import DRAWN, NoBrowser, launched, until
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser; without one, tests are skipped, and fail in CI.

    Its scope is a module: while it runs, the thread has an event loop, and no other test could start one.
    """
    try:
        with launched() as found:
            yield found
    except NoBrowser as absent:
        if os.environ.get("CI"):
            pytest.fail(str(absent))
        pytest.skip(str(absent))


@pytest.fixture
def complaints() -> list[str]:
    """Errors and warnings in the pages of a test."""
    return []


@pytest.fixture
def visit(browser: "Browser", complaints: list[str]) -> "Iterator[Callable[..., Page]]":
    """Open the dashboard of a server, and wait until it is drawn if ``drawn``; settings are the browser context's."""
    contexts = []

    def opened(server: Served, *, drawn: bool = True, **settings: Any) -> "Page":
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "console", lambda m: complaints.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None
        )
        page.on(
            "request",
            lambda r: complaints.append(f"foreign request: {r.url}") if not r.url.startswith(server.url) else None,
        )
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(f"{server.url}/dashboard")
        until(page, DRAWN if drawn else "window.alphaedge")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """A server with six edges and twenty frames."""
    with Served() as server:
        for time, state in states(6, 20):
            server.add(time, state)
        yield server
