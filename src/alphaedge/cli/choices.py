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
    "pens",
    "fedfomo",
    "l2c",
    "dpsgd",
    "apfl",
    "ditto",
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
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
    "false-tallies",
    "invented-tallies",
)
DATA_SETS: Final = (
    "synthetic",
    "movielens",
    "airquality",
    "completejourney",
    "completejourney-stores",
    "tafeng",
    "tafeng-areas",
    "flights",
    "parking",
    "ml-100k",
    "online-retail",
    "expedia",
    "birthdays",
    "film-genres",
    "world-one-cluster",
    "world-clusters",
    "world-nothing-shared",
    "world-drift",
    "world-shifting",
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
OTHER_EXPERIMENTS: Final = ("worth", "privacy", "development")
PAPER_DATA_SETS: Final = ("completejourney", "tafeng", "movielens", "airquality")
REPORTING_DATA_SETS: Final = ("online-retail", "expedia", "birthdays", "film-genres")
DEVELOPMENT_DATA_SETS: Final = (
    "flights",
    "parking",
    "ml-100k",
    "world-one-cluster",
    "world-clusters",
    "world-nothing-shared",
    "world-drift",
    "world-shifting",
    *PAPER_DATA_SETS,
)
