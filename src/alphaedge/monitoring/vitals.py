"""Vitals: the numbers that an edge reports about itself. They hold no ids, no inputs, nothing about a single user."""

import re
from collections.abc import Mapping
from typing import Final, final

import msgspec

from alphaedge.names import check_name, is_place

MAX_LINKS: Final = 1000  # links that one edge may report
EXCLUDED: Final = "excluded: "  # how the state of an excluded peer begins
MAX_NUMBER: Final = 1e18  # of any unit; far enough from infinity that sums over a fleet stay finite
STATE_PATTERN: Final = re.compile(r"[a-z0-9 :%.-]{1,60}")  # a few plain words, whoever wrote them


@final
class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an edge takes from one peer.

    share: of the last mix. pulled: when the model was last pulled, seconds since 1970. behind: publications that the
    peer is ahead. bytes: everything that came over this link. failures: pulls that failed. refused: models refused.
    state: of the peer in the eyes of the edge, in words, such as ``mixed`` or ``excluded: worse than alone by 40%``.
    """

    share: float = 0.0
    pulled: float = 0.0
    behind: int = 0
    bytes: int = 0
    failures: int = 0
    refused: int = 0
    state: str = "former"  # of most links of an edge that has been up for long, so that announcements stay short

    @property
    def excluded(self) -> str:
        """Why the edge has excluded the peer; empty if it has not."""
        return self.state.removeprefix(EXCLUDED) if self.state.startswith(EXCLUDED) else ""


@final
class Vitals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge's report about itself.

    place: what its data call the place where it is; empty if that is the edge's name. score: mean over all batches that
    it has predicted since it went live, each scored before it was learned from. recent: mean over the last batches.
    gain: by how much the score is above that of the home model alone, which predicts the same events at the same
    moments and is never mixed: what learning from peers is worth to this edge; None without a home model.
    recent_gain: the same over the last batches. batches: learned from. aggregations: done. missed_rounds: the last ones
    in a row in which neighbours had new models and none of them came. requests: predictions served. pending:
    predictions without a label. p50, p99: latency of recent predictions in milliseconds. own_share: of the edge's own
    model in the last mix. home_share: of the home model in predictions. neighbours: the peers that it pulls from.
    links: by peer, former neighbours included. budget_spent: it publishes nothing new, since it would break the promise
    about its users.
    """

    place: str = ""
    score: float | None = None
    recent: float | None = None
    gain: float | None = None
    recent_gain: float | None = None
    batches: int = 0
    aggregations: int = 0
    missed_rounds: int = 0
    requests: int = 0
    p50: float | None = None
    p99: float | None = None
    pending: int = 0
    own_share: float = 1.0
    home_share: float = 0.0
    neighbours: tuple[str, ...] = ()
    links: dict[str, Link] = {}
    budget_spent: bool = False


@final
class EdgeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge as another edge sees it.

    alive: it answers. starting: the edge that tells of it started moments ago and has not found it yet, or, of itself,
    not all of its neighbours. same_schema: both can mix with each other.
    """

    region: str
    alive: bool
    starting: bool = False
    same_schema: bool = True
    vitals: Vitals = Vitals()


def is_plausible(vitals: Vitals) -> bool:
    """Whether a report may be shown: numbers that can be, a bounded number of links, valid names, states in words."""
    if not is_place(vitals.place):
        return False
    if not all(_has_plausible_numbers(report) for report in (vitals, *vitals.links.values())):
        return False
    if len(vitals.links) > MAX_LINKS or len(vitals.neighbours) > MAX_LINKS:
        return False
    if not all(STATE_PATTERN.fullmatch(link.state) for link in vitals.links.values()):
        return False
    try:
        for name in (*vitals.links, *vitals.neighbours):
            check_name("peer", name)
    except ValueError:
        return False
    return True


def is_plausible_number(value: float) -> bool:
    """Whether a report may have a number: finite, and not absurdly large."""
    return abs(value) <= MAX_NUMBER  # False for what is not a number


def _has_plausible_numbers(report: msgspec.Struct) -> bool:
    values = msgspec.structs.astuple(report)
    return all(is_plausible_number(value) for value in values if isinstance(value, int | float))


def with_absent(before: Mapping[str, EdgeView], present: Mapping[str, EdgeView]) -> dict[str, EdgeView]:
    """The present edges, and the absent ones as they were last seen, marked as down."""
    gone = {name: view for name, view in before.items() if name not in present}
    absent = {name: msgspec.structs.replace(view, alive=False, starting=False) for name, view in gone.items()}
    return {**absent, **present}
