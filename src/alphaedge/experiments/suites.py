"""Which data settings are chosen on, and which are for reporting only: docs/decisions/0014-data-to-choose-on.md."""

from collections.abc import Mapping
from typing import Final

# The paper's public data sets and the stand-ins for its private ones, with the number of their events. Their first
# quarter is for development.
DATA_SETS: Final = ("completejourney", "tafeng", "movielens", "airquality")
EVENTS: Final[Mapping[str, int]] = {
    "completejourney": 1_397_046,
    "tafeng": 1_634_734,
    "movielens": 1_000_209,
    "airquality": 376_580,
}
EARLY_SHARE: Final = 0.25
# Data sets of which all events are for development.
WHOLLY_DEVELOPMENT: Final = (
    "flights",
    "parking",
    "ml-100k",
    "world-one-cluster",
    "world-clusters",
    "world-nothing-shared",
    "world-drift",
    "world-shifting",
)
DEVELOPMENT: Final = (*WHOLLY_DEVELOPMENT, *DATA_SETS)
# Data sets of which no event is for development. Nothing is chosen on them, and nothing on the rest of the four.
REPORTING: Final = ("online-retail", "expedia", "birthdays", "film-genres")


def early_share(data: str, rows: int | None) -> float | None:
    """Return the share of a data set that is for development, at most ``rows`` events; None: all of it.

    >>> early_share("movielens", None), early_share("parking", None)
    (0.25, None)
    >>> round(early_share("airquality", 37_658), 3)
    0.1
    """
    if data not in EVENTS:
        return None
    return EARLY_SHARE if rows is None else min(EARLY_SHARE, rows / EVENTS[data])
