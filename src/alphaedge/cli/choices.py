"""The names that help texts list.

They repeat what the catalogs say, since importing those takes torch; a test compares the two.
"""

from typing import Final

METHODS: Final = (
    "alphaedge",
    "fedweight",
    "uniweight",
    "randps",
    "nops",
    "noagg",
    "alphaedge-trusting",
    "alphaedge-paper",
    "randps-paper",
    "nops-paper",
)
ATTACKS: Final = (
    "flipped-labels",
    "random-model",
    "negated-update",
    "scaled-update",
    "drift",
    "poisoned-copy",
    "free-rider",
    "collusion",
    "false-claims",
    "poisoned-statistics",
    "poisoned-rows",
    "replayed-models",
)
DATA_SETS: Final = (
    "synthetic",
    "movielens",
    "airquality",
    "completejourney",
    "completejourney-stores",
    "tafeng",
    "tafeng-areas",
    "table",
)
EXPERIMENTS: Final = (
    "table1",
    "table2",
    "table3",
    "many-edges",
    "scores-over-time",
    "delay",
    "staleness",
    "aggregation-period",
    "batch-size",
    "attacks",
)
PAPER_DATA_SETS: Final = ("completejourney", "tafeng", "movielens", "airquality")
