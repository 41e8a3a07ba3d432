"""How fast the data's time runs, and how long after a prediction its outcome is known. Pure."""

import re
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.errors import InvalidValue, check_number

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)\s*(ms|s|m|h|d|w)?")


def duration(field: str, text: str) -> float:
    """Seconds of a text such as 250ms, 30s, 5m, 1.5h, 2d or 1w; a number alone is seconds.

    >>> duration("delay", "1.5h"), duration("delay", "0")
    (5400.0, 0.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidValue(field, text, "a number with ms, s, m, h, d or w behind it, such as 5m")
    return float(found[1]) * UNITS[found[2] or "s"]


def speed(text: str) -> float | None:
    """How many times as fast as it was the data's time runs; None: as fast as answers come.

    >>> speed("100x"), speed("max")
    (100.0, None)
    """
    if text.strip() == "max":
        return None
    number = text.strip().removesuffix("x")
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", number) or float(number) <= 0:
        raise InvalidValue("speed", text, "max, or how many times as fast, such as 100x")
    return float(number)


@final
@dataclass(frozen=True)
class Delay:
    """How long outcomes take, in seconds of the data's time: always so long, or exponential with that mean.

    >>> Delay.parse("exp:1h")
    Delay(seconds=3600.0, exponential=True)
    """

    seconds: float = 0.0
    exponential: bool = False

    def __post_init__(self) -> None:
        check_number("delay", self.seconds, low=0)

    @classmethod
    def parse(cls, text: str) -> "Delay":
        """From 5m, 0 or exp:1h."""
        kind, colon, rest = text.strip().partition(":")
        if colon and kind != "exp":
            raise InvalidValue("delay", text, "a time such as 5m, or exp: and its mean, such as exp:1h")
        return cls(duration("delay", rest if colon else kind), exponential=bool(colon))

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """So many delays."""
        if self.exponential:
            return rng.exponential(self.seconds, count)
        return np.full(count, self.seconds)

    def __str__(self) -> str:
        return f"exp:{self.seconds:g}s" if self.exponential else f"{self.seconds:g}s"


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How to replay.

    speed: how many times as fast as it was the data's time runs (an open loop: requests leave when it is their time,
        and latency counts from that moment); None: as fast as answers come (a closed loop).
    unit: seconds in one unit of the streams' times. delay: of outcomes, in the data's time.
    per_request: events in a request for predictions. connections: to each edge, at most.
    batch_size: events in a batch that is scored.
    patience: seconds that a request waits for an edge that does not answer, and what is owed at the end. A closed loop
        gives an edge up after them; an open loop goes on, as the time does.
    limit_seconds: after these no prediction is asked for any more, and what is still owed is told at once.
    seed: of what is drawn.
    """

    speed: float | None = None
    unit: float = 1.0
    delay: Delay = Delay()
    per_request: int = 10
    connections: int = 4
    batch_size: int = 50
    patience: float = 30.0
    limit_seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        positive: dict[str, Any] = {"speed": self.speed, "unit": self.unit, "limit_seconds": self.limit_seconds}
        for name, value in positive.items():
            if value is not None:
                check_number(name, value, above=0)
        for name in ("per_request", "connections", "batch_size"):
            check_number(name, getattr(self, name), low=1, whole=True)
        check_number("patience", self.patience, low=0)
        check_number("seed", self.seed, low=0, whole=True)
