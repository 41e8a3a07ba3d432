"""What a demonstration has shown, in two sentences: the gain, and how the fleet took what happened to it. Pure."""

from collections.abc import Sequence

from alphaedge.demo.summary import DemoSummary


def verdict(summary: DemoSummary) -> list[str]:
    """Return the sentences; the table beside them has the numbers of each edge."""
    return [_gain(summary), _hardship(summary)]


def _gain(summary: DemoSummary) -> str:
    gains = {edge.edge: edge.gain for edge in summary.edges if not edge.hostile and edge.gain is not None}
    if summary.gain is None or not gains:
        return "No edge has a score of its home model to compare with."
    better = sum(gain > 0 for gain in gains.values())
    whom = f"{better} of {len(gains)} honest edges" if better < len(gains) else f"all {len(gains)} honest edges"
    numbers = f"{summary.gain:+.4f} {summary.metric} on average"
    if summary.gain > 0:
        return f"Learning from each other paid for {whom}: {numbers} over learning alone from the same events."
    return (
        f"Learning from each other did not pay in this run: {numbers} over learning alone from the same events, better "
        f"for {whom}. A short run has few mixes, and a busy machine fewer."
    )


def _hardship(summary: DemoSummary) -> str:
    parts = [_noticed(summary, edge.edge) for edge in summary.edges if edge.hostile]
    parts += [
        f"{edge.edge} was killed and back after {edge.down_seconds:.0f} s"
        for edge in summary.edges
        if edge.down_seconds
    ]
    lost = [f"{summary.failures} requests failed"] if summary.failures else []
    lost += [f"{summary.undelivered} labels were lost"] if summary.undelivered else []
    parts.append(" and ".join(lost) or f"all {summary.events:,} predictions were answered and no label was lost")
    return f"Meanwhile {'; '.join(parts)}."


def _noticed(summary: DemoSummary, hostile: str) -> str:
    reactions = [one for one in summary.reactions if one.hostile == hostile]
    first = {one.edge: one.exclusions[0].seconds for one in reactions if one.exclusions}
    listeners = [one.edge for one in reactions if one.before]
    last = max((one.last for one in reactions), default=0.0)
    end = "at the end nobody learned from it" if last < 0.01 else f"at the end it still had a share of {last:.2f}"
    if not reactions:
        return f"{hostile} turned hostile, and nobody learned from it"
    said = (
        f"{hostile} turned hostile while {_names(listeners)} learned from it"
        if listeners
        else f"{hostile} turned hostile"
    )
    if not first:
        return f"{said}; {end}"
    noticed = [f"{edge} after {seconds:.0f} s" for edge, seconds in sorted(first.items(), key=lambda one: one[1])]
    return f"{said}; it was shut out by {_names(noticed)}, and {end}"


def _names(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "nobody"
