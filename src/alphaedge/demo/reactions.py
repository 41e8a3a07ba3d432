"""How honest edges reacted to one that turned hostile, from what the watcher has seen. Pure.

Only mixes after the turn count: an edge's first report with a new aggregation tells the shares of its last mix. If the
watcher has missed a mix, the rounds until the next report count as that report says.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, final

import msgspec

from alphaedge.monitoring.frames import Frame

THRESHOLDS: Final = (0.05, 0.01)  # shares; what the project promises is in terms of these


@final
class TimeAbove(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a share was above a threshold. rounds, seconds: in total. last_round: since the turn, 0 if never."""

    share: float
    rounds: int
    seconds: float
    last_round: int


@final
class Exclusion(msgspec.Struct, frozen=True, kw_only=True):
    """An exclusion of the hostile edge. round, seconds: since the turn. reason: as the edge gave it."""

    round: int
    seconds: float
    reason: str


@final
class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """How one honest edge reacted to the edge that turned hostile.

    before: its share when it turned. rounds: mixes since then. largest: the largest share in one of them, in
    ``largest_round``, which was seen after so many seconds. last: the share in the last one. above: by threshold.
    """

    edge: str
    hostile: str
    before: float
    rounds: int
    largest: float
    largest_round: int
    largest_seconds: float
    last: float
    above: tuple[TimeAbove, ...]
    exclusions: tuple[Exclusion, ...]


class _Report(NamedTuple):
    """What an edge reported. time: when it was seen, seconds since 1970."""

    time: float
    alive: bool
    aggregations: int
    share: float
    excluded: str


def find_reactions(frames: Sequence[Frame], turned: Sequence[tuple[float, str]]) -> list[Reaction]:
    """Return the reactions of all honest edges that gave a hostile edge a share or excluded it.

    turned: when each hostile edge turned, seconds since 1970.
    """
    ends = frames[-1].time if frames else 0.0
    villains = {hostile for _, hostile in turned}
    honest = sorted({name for frame in frames for name in frame.edges} - villains)
    reactions = [_reaction(name, hostile, frames, at, ends) for at, hostile in turned for name in honest]
    return [one for one in reactions if one.before or one.largest or one.exclusions]


def _reaction(name: str, hostile: str, frames: Sequence[Frame], turned: float, ends: float) -> Reaction:
    reports = list(_reports(name, hostile, frames))
    earlier = [one for one in reports if one.time <= turned]
    at_turn = earlier[-1] if earlier else _Report(turned, True, 0, 0.0, "")
    later = [one for one in reports if one.time > turned and one.aggregations > at_turn.aggregations]
    peak = max(later, key=lambda one: one.share, default=at_turn)
    has_peak = bool(later) and peak.share > 0
    return Reaction(
        edge=name,
        hostile=hostile,
        before=at_turn.share,
        rounds=later[-1].aggregations - at_turn.aggregations if later else 0,
        largest=peak.share if has_peak else 0.0,
        largest_round=peak.aggregations - at_turn.aggregations if has_peak else 0,
        largest_seconds=peak.time - turned if has_peak else 0.0,
        last=later[-1].share if later else 0.0,
        above=tuple(_time_above(share, later, at_turn.aggregations, ends) for share in THRESHOLDS),
        exclusions=tuple(_exclusions([one for one in reports if one.time > turned], at_turn, turned)),
    )


def _reports(name: str, hostile: str, frames: Sequence[Frame]) -> Iterator[_Report]:
    for frame in frames:
        if name in frame.edges:
            view = frame.edges[name]
            link = view.vitals.links.get(hostile)
            share, excluded = (link.share, link.excluded) if link is not None else (0.0, "")
            yield _Report(frame.time, view.alive, view.vitals.aggregations, share, excluded)


def _time_above(threshold: float, reports: Sequence[_Report], start: int, ends: float) -> TimeAbove:
    """start: aggregations at the turn. Until the next report, an edge uses what it has mixed, unless it is down."""
    rounds = last_round = 0
    seconds, done = 0.0, start
    for number, one in enumerate(reports):
        if one.share > threshold:
            until = reports[number + 1].time if number + 1 < len(reports) else ends
            rounds += max(0, one.aggregations - done)
            seconds += until - one.time if one.alive else 0.0
            last_round = one.aggregations - start
        done = max(done, one.aggregations)
    return TimeAbove(share=threshold, rounds=rounds, seconds=seconds, last_round=last_round)


def _exclusions(reports: Sequence[_Report], at_turn: _Report, turned: float) -> Iterator[Exclusion]:
    """Exclusions that began after the turn. An edge that restarts forgets to report one for a moment: no new one."""
    before, last = at_turn.excluded, at_turn.aggregations if at_turn.excluded else -1
    for one in reports:
        if one.excluded and not before and one.aggregations > last:
            number = max(0, one.aggregations - at_turn.aggregations)
            yield Exclusion(round=number, seconds=one.time - turned, reason=one.excluded)
        before, last = one.excluded, one.aggregations if one.excluded else last
