"""What a reader of the figures must know to read them right. Pure."""

from typing import Final

import msgspec

from alphaedge.replay.result import ReplayResult

LATE: Final = 10.0  # milliseconds that the generator may be late, at the 99th percentile
CROWDED: Final = 0.01  # share of requests that may find all connections busy


def notes(outcome: ReplayResult) -> ReplayResult:
    """The outcome with its notes."""
    total = outcome.total
    found = [
        f"{e.edge}: given up, since it did not answer for too long ({e.gave_up})" for e in outcome.edges if e.gave_up
    ]
    if outcome.stopped:
        found.append("stopped before its end: this is what came so far")
    if total.failures:
        found.append(f"{total.failures} requests were never answered, or refused; their events have no score")
    told = total.feedback
    if told.undelivered:
        found.append(f"{told.undelivered} outcomes were not delivered")
    if told.expired:
        found.append(f"{told.expired} outcomes came later than the edge waits for them (feedback.window_seconds)")
    if told.unknown:
        found.append(f"{told.unknown} outcomes were of predictions that the edge does not know any more")
    late = outcome.late.p99
    if late is not None and late > LATE:
        found.append(
            f"the generator itself fell behind: 1 in 100 times it was more than {late:.0f} ms late, which latency "
            "includes; give it more of the machine, fewer edges, a lower speed or more events a request"
        )
    elif total.crowded > CROWDED * max(1, total.requests + total.failures):
        found.append(
            f"{total.crowded} requests found all connections busy, and latency has their wait for one; with more "
            "connections the edges would have had more to do at once"
        )
    errors = [(f"{e.edge}: {text}", count) for e in outcome.edges for text, count in e.errors.items()]
    found += [f"{text} ({count} times)" for text, count in sorted(errors, key=lambda e: -e[1])[:5]]
    return msgspec.structs.replace(outcome, notes=tuple(found))
