"""Options of a replay: how fast the data's time runs, and how long after a prediction its label arrives. Pure."""

import re
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.errors import InvalidValue, check_number

UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION: Final = re.compile(r"(\d+\.?\d*|\.\d+)\s*(ms|s|m|h|d|w)?")


def parse_duration(field: str, text: str) -> float:
    """Return the seconds of a text such as 250ms, 30s, 5m, 1.5h, 2d or 1w; a number alone is seconds.

    >>> parse_duration("delay", "1.5h"), parse_duration("delay", "0")
    (5400.0, 0.0)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(field, text, "a number followed by ms, s, m, h, d or w, such as 5m")
    return float(match[1]) * UNIT_SECONDS[match[2] or "s"]


def parse_speed(text: str) -> float | None:
    """Return how many times faster than real time the data's time runs; None for max: as fast as answers come.

    >>> parse_speed("100x"), parse_speed("max")
    (100.0, None)
    """
    if text.strip() == "max":
        return None
    number = text.strip().removesuffix("x")
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", number) or float(number) <= 0:
        raise InvalidValue("speed", text, "max, or a multiple of real time, such as 100x")
    return float(number)


@final
@dataclass(frozen=True)
class Delay:
    """Time from a prediction to its label, in seconds of the data's time: constant, or exponential with that mean.

    >>> Delay.parse("exp:1h")
    Delay(seconds=3600.0, exponential=True)
    """

    seconds: float = 0.0
    exponential: bool = False

    def __post_init__(self) -> None:
        check_number("delay", self.seconds, low=0)

    @classmethod
    def parse(cls, text: str) -> "Delay":
        """Parse 5m, 0 or exp:1h."""
        kind, colon, rest = text.strip().partition(":")
        if colon and kind != "exp":
            raise InvalidValue("delay", text, "a time such as 5m, or exp: and a mean, such as exp:1h")
        return cls(parse_duration("delay", rest if colon else kind), exponential=bool(colon))

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw delays [count]."""
        if self.exponential:
            return rng.exponential(self.seconds, count)
        return np.full(count, self.seconds)

    def __str__(self) -> str:
        return f"exp:{self.seconds:g}s" if self.exponential else f"{self.seconds:g}s"


@final
@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """How to replay.

    speed: how many times faster than real time the data's time runs. That is an open loop: requests leave at their own
        time, and latency counts from that moment. None: as fast as answers come, a closed loop.
    time_unit: seconds in one unit of the streams' times. delay: of labels, in the data's time.
    per_request: events in a request for predictions. connections: to each edge, at most.
    batch_size: events in a batch that is scored.
    patience: seconds that a request waits for an edge that does not answer, and so does feedback at the end. After that
        a closed loop gives the edge up; an open loop goes on, as time does.
    limit_seconds: seconds after which no more predictions are requested, and all feedback is sent at once.
    seed: for the delays.
    """

    speed: float | None = None
    time_unit: float = 1.0
    delay: Delay = Delay()
    per_request: int = 10
    connections: int = 4
    batch_size: int = 50
    patience: float = 30.0
    limit_seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        positive: dict[str, Any] = {
            "speed": self.speed,
            "time_unit": self.time_unit,
            "limit_seconds": self.limit_seconds,
        }
        for name, value in positive.items():
            if value is not None:
                check_number(name, value, above=0)
        for name in ("per_request", "connections", "batch_size"):
            check_number(name, getattr(self, name), low=1, whole=True)
        check_number("patience", self.patience, low=0)
        check_number("seed", self.seed, low=0, whole=True)
