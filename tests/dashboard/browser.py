"""A real browser, Debian's Chromium by way of Playwright, and what tests ask of a page in it."""

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
    """What is missing, and how to get it."""


@contextlib.contextmanager
def launched() -> Iterator["Browser"]:
    """A browser that runs. NoBrowser if there is none."""
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
    """Wait until something is true in the page. Playwright's own way to wait needs eval, which the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < end, f"waited in vain for {condition}"
        page.wait_for_timeout(10)


def known(page: "Page", name: str) -> Any:
    """One of the numbers that the page tells of itself."""
    return page.evaluate(f"window.alphaedge.{name}")


def colours_in(page: "Page", canvas: str) -> int:
    """How many different colours a canvas has; a blank one has one."""
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
    """By how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
