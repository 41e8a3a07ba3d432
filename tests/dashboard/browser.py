"""A real browser, Debian's Chromium with Playwright, and helpers for tests."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MISSING = "a browser is not installed (pip install playwright, and Debian: apt-get install chromium)"
DRAWN = "window.alphaedge?.firstDrawMs > 0"


class NoBrowser(Exception):
    """No browser is installed; says how to get one."""


@contextlib.contextmanager
def launched() -> Iterator["Browser"]:
    """Run a browser. Raises ``NoBrowser`` if there is none."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        raise NoBrowser(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def until(page: "Page", condition: str, seconds: float = 60) -> None:
    """Wait until a condition holds in the page. Playwright's own wait needs eval, which the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < end, f"waited in vain for {condition}"
        page.wait_for_timeout(10)


def known(page: "Page", name: str) -> Any:
    """Return one of the numbers that the page exposes for tests."""
    return page.evaluate(f"window.alphaedge.{name}")


def colours_in(page: "Page", canvas: str) -> int:
    """Return how many different colours a canvas has; a blank one has one."""
    return int(
        page.evaluate(
            """id => {
                const canvas = document.getElementById(id);
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(data.buffer)).size;
            }""",
            canvas,
        )
    )


def overflow(page: "Page") -> int:
    """Return by how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
