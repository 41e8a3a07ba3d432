"""Warns when a clock is off. Nothing depends on clocks, but people read times, and certificates have them. Pure."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

WARN_SECONDS: Final = 10.0  # a heartbeat may be on its way for several seconds
CALM_SECONDS: Final = 5.0


def own_skew(skews: Mapping[str, float]) -> float:
    """Return how many seconds this edge's clock is ahead of the fleet's, which is the median of all, its own included.

    skews: of the other edges, relative to this one. Where two are in the middle, the nearer one counts.

    >>> own_skew({"bonn": 7200.0, "kiel": 7201.0}), own_skew({"bonn": 7200.0})
    (-7200.0, 0.0)
    """
    clocks = [0.0, *skews.values()]
    return 0.0 - min(statistics.median_low(clocks), statistics.median_high(clocks), key=abs)


@final
@dataclass
class SkewAlarm:
    """Remembers whose clock was off. me: the name of this edge."""

    me: str
    _off: set[str] = field(default_factory=set)

    def check(self, skews: Mapping[str, float]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is due: an event and its fields. skews: of the other edges, relative to this one."""
        own = own_skew(skews)
        for edge, skew in {self.me: 0.0, **skews}.items():
            seconds = skew + own
            if abs(seconds) > WARN_SECONDS and edge not in self._off:
                self._off.add(edge)
                yield "clock_is_off", {"of": edge, "seconds": round(seconds, 1)}
            elif abs(seconds) < CALM_SECONDS and edge in self._off:
                self._off.discard(edge)
                yield "clock_is_right_again", {"of": edge}
        self._off &= {self.me, *skews}
