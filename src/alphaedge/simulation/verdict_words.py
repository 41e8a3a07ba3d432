"""The words of a verdict: its headline, its sentences, and warnings that say what to do."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.filesize import decimal

from alphaedge.scoring import format_gain

if TYPE_CHECKING:
    from alphaedge.simulation.verdict import Region, Verdict

SMALLEST_BATCH: Final = 10  # events: the gradient of fewer is mostly noise
FEW_EVENTS: Final = 300  # of a region: 30 rounds of one batch of 10
NAMED: Final = 3  # regions that a sentence names


def headline(verdict: "Verdict") -> str:
    """The conclusion with the gain and its interval."""
    opening = {
        "pays": "Learning from each other pays",
        "does not pay": "Learning from each other does not pay",
        "can't tell": "Can't tell whether learning from each other pays",
    }[verdict.conclusion]
    if verdict.gain is None:
        return f"{opening}: no region has a score with both."
    if verdict.better_baseline is not None:
        opening = f"No verdict: a simple baseline, {verdict.better_baseline}, beats both models"
    return (
        f"{opening}: {format_gain(verdict.gain, verdict.ci95)} {verdict.metric} over learning alone, "
        f"better in {verdict.better} of {_known(verdict)} regions."
    )


def sentences(verdict: "Verdict") -> list[str]:
    """From when on it pays, what new ids gain, what it costs, and what the interval rests on."""
    found, since = [], verdict.pays_from
    if since is not None and verdict.conclusion == "pays":
        share, events = f"{since.share:.0%} of the run", f"about {since.events:,} events per region"
        when = f"{since.date} on ({share}, {events})" if since.date else f"{share} on ({events})"
        found.append(f"From {when}, the gain so far stays above 0.")
    elif verdict.gain is not None and since is None:
        found.append("At the end of the run, the gain so far is not above 0.")
    if verdict.new_ids is not None:
        found.append(
            f"New ids: {format_gain(verdict.new_ids)} {verdict.metric} on events that name an id for the first time."
        )
    cost = verdict.cost
    daily = f", {decimal(cost.per_region_and_day)} a day" if cost.per_region_and_day is not None else ""
    found.append(f"Cost: a region pulls {decimal(cost.per_region)}{daily}; all regions {decimal(cost.bytes)}.")
    if verdict.interval_over == "seeds":
        found.append(f"±: half of the 95% interval over {verdict.seeds} seeds, paired.")
    elif verdict.interval_over == "regions":
        found.append(f"±: half of the 95% interval over {_known(verdict)} regions, paired.")
    return found


def warnings(
    verdict: "Verdict", baselines: Mapping[str, float], size: int, every: int, *, min_rounds: int, min_seeds: int
) -> list[str]:
    """What makes the verdict weak, each with a remedy. size: events per batch; every: batches per aggregation."""
    found, events = [], int(median(region.events for region in verdict.regions))
    if verdict.better_baseline is not None:
        found.append(
            f"A simple baseline beats both models: {verdict.better_baseline} scores "
            f"{baselines[verdict.better_baseline]:.4f}. Look for better columns or settings first (alphaedge tune)."
        )
    if verdict.rounds < min_rounds:
        count = "no round" if not verdict.rounds else "1 round" if verdict.rounds == 1 else f"{verdict.rounds} rounds"
        found.append(f"Only {count} per region: {remedy(events, size, every, min_rounds)}.")
    if small := sorted((r for r in verdict.regions if r.events < FEW_EVENTS), key=lambda r: r.events):
        found.append(f"{_few(small)}: too few to judge by; collect more, or join small regions.")
    if verdict.seeds < min_seeds:
        count = "One seed" if verdict.seeds == 1 else f"{verdict.seeds} seeds"
        found.append(f"{count}: how much another run would differ is unknown. Use --seeds {min_seeds} or more.")
    return found


def remedy(events: int, size: int, every: int, rounds: int) -> str:
    """How a region with so many events gets so many rounds.

    >>> remedy(30_000, 500, 10, 30), remedy(750, 25, 10, 30), remedy(200, 50, 10, 30)
    ('use --batch-size 100 or --aggregate-every 2', 'use --batch-size 10 --aggregate-every 2', 'use more events')
    """
    smaller, oftener = events // (rounds * every), events // (rounds * size)
    ways = [f"--batch-size {smaller}"] if smaller >= SMALLEST_BATCH else []
    ways += [f"--aggregate-every {oftener}"] if oftener >= 2 else []
    if ways:
        return f"use {' or '.join(ways)}"
    both = events // (rounds * SMALLEST_BATCH)
    return f"use --batch-size {SMALLEST_BATCH} --aggregate-every {both}" if both else "use more events"


def _known(verdict: "Verdict") -> int:
    """How many regions have a gain; hostile ones have none."""
    return sum(region.gain is not None for region in verdict.regions)


def _few(regions: Sequence["Region"]) -> str:
    named = ", ".join(f"{region.name} has {region.events:,} events" for region in regions[:NAMED])
    more = len(regions) - NAMED
    return f"{named} and {more} more have fewer than {FEW_EVENTS}" if more > 0 else named
