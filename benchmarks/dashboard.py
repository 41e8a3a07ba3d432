"""The dashboard in a real browser: until a fleet is first drawn, and what a new frame takes, with 6 and 200 edges.

First paint: from the moment the page is asked for until its pictures and tables are drawn. Update: to read a frame, to
apply it, and to draw and lay out everything again; the median over frames, in all of which every edge has changed.
"""

import statistics

from tests.dashboard.browser import DRAWN, NoBrowser, known, launched, until
from tests.dashboard.serving import Served
from tests.monitoring.synthetic import states

from benchmarks.common import arguments, report

FLEETS = (6, 200)
BUDGET = 40_000_000  # bytes: all frames are kept, so that there is much to draw
PAST, NEW, VISITS = 60, 30, 5


def measure(edges: int, new: int, visits: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the first paint of each visit, and of each update in the last one."""
    told = list(states(edges, PAST + new))
    first, updates = [], []
    with launched() as browser, Served(budget=BUDGET) as server:
        for time, state in told[:PAST]:
            server.add(time, state)
        for visit in range(visits + 1):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            page.goto(f"{server.url}/dashboard")
            until(page, f"{DRAWN} && alphaedge.status === 'live'")
            if visit:  # the first one starts the browser's processes
                first.append(float(known(page, "firstDrawMs")))
            if visit == visits:
                for time, state in told[PAST:]:
                    before = known(page, "updates")
                    server.add(time, state)
                    until(page, f"alphaedge.time === {time!r} && alphaedge.updates > {before}")
                    updates.append(float(known(page, "lastUpdateMs")))
            context.close()
    return first, updates


def main() -> None:
    """Print the table and write the figures."""
    options = arguments("The dashboard in a browser.")
    new, visits = (5, 1) if options.quick else (NEW, VISITS)
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
