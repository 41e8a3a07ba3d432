"""The verdict of a simulation: does learning from each other pay, for whom, from when on, and what does it cost?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final, Literal, final

import msgspec
import polars as pl

from alphaedge.scoring import LEVEL_MARGIN, interval95, mean
from alphaedge.simulation.gains import edge_gains, mean_gains, pays_from
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.verdict_words import headline, sentences, warnings

Conclusion = Literal["pays", "does not pay", "can't tell"]

MIN_ROUNDS: Final = 30  # of a region: with fewer, peers have hardly had the time to help
MIN_SEEDS: Final = 3  # for an interval over seeds: that of two is 13 times their standard error
DAY: Final = 86_400.0  # seconds


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """One region: its events, its scores alone and with peers (mean over seeds), and what it pulled in a run.

    ci95: half of the 95% interval of its gain over the seeds; None with fewer than three.
    """

    name: str
    events: int
    alone: float | None
    with_peers: float | None
    gain: float | None
    ci95: float | None
    bytes: int


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """From when on it pays: the share of the run, the events of a region until then (median), the date if known."""

    share: float
    events: int
    date: str | None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one run pulls: in all, a region on average, and that by day where the data have dates."""

    bytes: int
    per_region: int
    per_region_and_day: int | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation says about learning from each other.

    method: what is compared with learning alone (``noagg``). gain: its score minus that of learning alone, paired by
    batches, edges and seeds; hostile edges are left out. ci95: half of the gain's 95% interval (Student's t).
    interval_over: what the interval rests on: the gains of the seeds if there are three or more, else the mean gains of
    the regions. better: regions with a gain above 0. new_ids: the gain on events that name an id for the first time
    at their edge. rounds: of a region (median). better_baseline: the best simple baseline that is above both scores.
    """

    method: str
    metric: str
    conclusion: Conclusion
    gain: float | None
    ci95: float | None
    interval_over: Literal["seeds", "regions"] | None
    seeds: int
    alone: float | None
    with_peers: float | None
    better: int
    regions: tuple[Region, ...]
    pays_from: Since | None
    new_ids: float | None
    cost: Cost
    rounds: int
    better_baseline: str | None
    warnings: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The conclusion in one sentence."""
        return headline(self)

    @property
    def sentences(self) -> list[str]:
        """What else there is to say, a sentence each."""
        return sentences(self)

    def plain(self) -> dict[str, Any]:
        """Plain values with the words, as in ``summary.json``."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {"headline": self.headline, "sentences": self.sentences} | found

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.sentences, *self.warnings])

    def _repr_html_(self) -> str:
        from alphaedge.report.simulation_report import verdict_html  # here, as worker processes never show anything

        return verdict_html(self.plain())


@final
@dataclass(frozen=True)
class Facts:
    """What a verdict needs to know of a simulation besides its runs.

    names, events: by edge. size: events per batch. every: batches per aggregation. span: when the first and the last
    batch happened, in seconds since 1970; None if the data have no dates. baselines: their scores, by name.
    """

    metric: str
    names: Sequence[str]
    events: Sequence[int]
    size: int
    every: int
    span: tuple[float, float] | None
    baselines: dict[str, float]


def judge(ours: Sequence[RunResult], alone: Sequence[RunResult], facts: Facts) -> Verdict | None:
    """Compare runs of a method with those of learning alone, paired by seed; None without a pair."""
    other = {run.seed: run for run in alone}
    pairs = [(run, other[run.seed]) for run in ours if run.seed in other]
    if not pairs:
        return None
    mine, theirs = [_honest(a, a.per_edge) for a, _ in pairs], [_honest(b, b.per_edge) for _, b in pairs]
    by_edge = edge_gains(mine, theirs)
    regions = _regions(pairs, mine, theirs, by_edge, facts)
    by_seed = [mean(run) for run in zip(*by_edge, strict=True)]
    gain = mean(by_seed)
    over: Literal["seeds", "regions"] = "seeds" if len(pairs) >= MIN_SEEDS else "regions"
    rests_on = by_seed if over == "seeds" else [region.gain for region in regions]
    ci95 = interval95([g for g in rests_on if g is not None])
    rounds = int(median(region.events for region in regions)) // (facts.size * facts.every)
    with_peers, by_itself = (mean([mean(run) for run in runs]) for runs in (mine, theirs))
    best = max((s for s in (with_peers, by_itself) if s is not None), default=None)
    above = {name: score for name, score in facts.baselines.items() if best is not None and score > best}
    found = Verdict(
        method=pairs[0][0].method,
        metric=facts.metric,
        conclusion="can't tell" if above else conclude(gain, ci95, rounds),
        gain=gain,
        ci95=ci95,
        interval_over=None if ci95 is None else over,
        seeds=len(pairs),
        alone=by_itself,
        with_peers=with_peers,
        better=sum(region.gain is not None and region.gain > 0 for region in regions),
        regions=tuple(regions),
        pays_from=_since(pairs, facts),
        new_ids=mean(mean_gains(*([_honest(r, r.first_sight) for r in runs] for runs in zip(*pairs, strict=True)))),
        cost=_cost([a for a, _ in pairs], facts),
        rounds=rounds,
        better_baseline=max(above, key=above.__getitem__, default=None),
    )
    told = warnings(found, facts.baselines, facts.size, facts.every, min_rounds=MIN_ROUNDS, min_seeds=MIN_SEEDS)
    return msgspec.structs.replace(found, warnings=tuple(told))


def conclude(gain: float | None, ci95: float | None, rounds: int) -> Conclusion:
    """Conclude from a gain and its interval.

    It pays if the whole interval is above 0, and does not if the whole interval is below a gain that matters
    (``LEVEL_MARGIN``). After few rounds a missing gain says nothing: peers have not had the time to help.
    """
    if gain is None or ci95 is None:
        return "can't tell"
    if gain + ci95 < LEVEL_MARGIN:
        return "does not pay" if rounds >= MIN_ROUNDS else "can't tell"
    return "pays" if gain - ci95 > 0 else "can't tell"


def _honest(run: RunResult, values: list[float | None]) -> list[float | None]:
    return [value if honest else None for value, honest in zip(values, run.honest, strict=True)]


def _regions(
    pairs: list[tuple[RunResult, RunResult]],
    mine: list[list[float | None]],
    theirs: list[list[float | None]],
    by_edge: list[list[float | None]],
    facts: Facts,
) -> list[Region]:
    pulled = pl.concat([a.pulls for a, _ in pairs]).group_by("edge").agg(pl.col("bytes").sum())
    pulls: dict[int, int] = dict(pulled.rows())
    found = []
    for edge, gains in enumerate(by_edge):
        known = [g for g in gains if g is not None]
        found.append(
            Region(
                name=facts.names[edge],
                events=facts.events[edge],
                alone=mean([run[edge] for run in theirs]),
                with_peers=mean([run[edge] for run in mine]),
                gain=mean(known),
                ci95=interval95(known) if len(known) >= MIN_SEEDS else None,
                bytes=round(pulls.get(edge, 0) / len(pairs)),
            )
        )
    return found


def _since(pairs: list[tuple[RunResult, RunResult]], facts: Facts) -> Since | None:
    """When the gain so far, in which each edge counts the same, starts to stay above 0."""
    both = pl.concat([_batch_gains(a, b) for a, b in pairs])
    weighted = pl.col("gain") / pl.len().over("seed", "edge")
    over_time = both.with_columns(weighted).group_by("time").agg(pl.col("gain").sum()).sort("time")
    place = pays_from(over_time["gain"].to_list())
    if place is None:
        return None
    share = float(over_time["time"][place])
    before = both.group_by("seed", "edge").agg((pl.col("time") <= share).sum())["time"]
    return Since(share=share, events=round(median(before)) * facts.size, date=_date(share, facts.span))


def _batch_gains(ours: RunResult, alone: RunResult) -> pl.DataFrame:
    """The gain of each batch of the honest edges that both runs have scored: seed, edge, time, gain."""
    honest = [edge for edge, fine in enumerate(ours.honest) if fine]
    both = ours.scores.join(alone.scores, on=["edge", "batch"], suffix="_alone").filter(pl.col("edge").is_in(honest))
    gain = pl.col("score") - pl.col("score_alone")
    return both.select("seed", "edge", "time", gain=gain).drop_nulls()


def _date(share: float, span: tuple[float, float] | None) -> str | None:
    """The date at a share of the run, with the time of day if the run is shorter than three days."""
    if span is None:
        return None
    when = datetime.fromtimestamp(span[0] + share * (span[1] - span[0]), UTC)
    return when.strftime("%Y-%m-%d" if span[1] - span[0] >= 3 * DAY else "%Y-%m-%d %H:%M")


def _cost(runs: list[RunResult], facts: Facts) -> Cost:
    whole = sum(run.bytes[2] for run in runs) / len(runs)
    region = whole / len(facts.names)
    days = (facts.span[1] - facts.span[0]) / DAY if facts.span else 0.0
    return Cost(
        bytes=round(whole), per_region=round(region), per_region_and_day=round(region / days) if days >= 1 else None
    )
