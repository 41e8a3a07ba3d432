"""The dashboard in a real browser, with 6 and 200 edges: time to the first paint, and time per update.

First paint: from the request for the page until charts and tables are drawn. Update: read a frame, apply it, and draw
and lay out everything again; the median over frames in which every edge has changed.
"""

import statistics

from benchmarks.common import arguments, report
from tests.dashboard.browser import DRAWN, NoBrowser, known, launched, until
from tests.dashboard.serving import Served
from tests.monitoring.synthetic import states

FLEETS = (6, 200)
HISTORY_BYTES = 40_000_000  # enough to keep all frames, so that there is much to draw
PAST_FRAMES, NEW_FRAMES, VISITS = 60, 30, 5


def measure(edges: int, new: int, visits: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds to the first paint of each visit, and of each update during the last visit."""
    frames = list(states(edges, PAST_FRAMES + new))
    first, updates = [], []
    with launched() as browser, Served(max_bytes=HISTORY_BYTES) as server:
        for time, state in frames[:PAST_FRAMES]:
            server.add(time, state)
        for visit in range(visits + 1):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.goto(f"{server.url}/dashboard")
            until(page, f"{DRAWN} && alphaedge.status === 'live'")
            if visit:  # the first visit starts the processes of the browser
                first.append(float(known(page, "firstDrawMs")))
            if visit == visits:
                for time, state in frames[PAST_FRAMES:]:
                    before = known(page, "updates")
                    server.add(time, state)
                    until(page, f"alphaedge.time === {time!r} && alphaedge.updates > {before}")
                    updates.append(float(known(page, "lastUpdateMs")))
            context.close()
    return first, updates


def main() -> None:
    """Measure and report."""
    options = arguments("The dashboard in a browser.")
    new, visits = (5, 1) if options.quick else (NEW_FRAMES, VISITS)
    rows, figures = [], {}
    for edges in FLEETS:
        try:
            first, updates = measure(edges, new, visits)
        except NoBrowser as absent:
            raise SystemExit(str(absent)) from None
        figures[str(edges)] = {
            "first_paint_ms": statistics.median(first),
            "update_ms": statistics.median(updates),
            "slowest_update_ms": max(updates),
        }
        rows.append([str(edges), *(f"{value:.0f}" for value in figures[str(edges)].values())])
    columns = ["edges", "first paint, ms", "update, ms", "slowest update, ms"]
    report("The dashboard in a browser", columns, rows, figures, options.json)


if __name__ == "__main__":
    main()
