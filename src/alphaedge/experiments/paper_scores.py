"""The scores in tables 1 to 3 of the paper, means of five runs. Wu, Mitra, Chen and Rao, IEEE BigData 2023."""

from collections.abc import Mapping
from typing import Final

# The data set of the paper that each data set here stands for: A and B are private.
STANDS_FOR: Final[Mapping[str, str]] = {
    "completejourney": "Dataset-A",
    "tafeng": "Dataset-B",
    "movielens": "Movielens-1M",
    "airquality": "AirQuality",
}

TABLE1: Final[Mapping[str, Mapping[str, float]]] = {
    "completejourney": {
        "noagg": 0.671,
        "fedweight": 0.678,
        "uniweight": 0.637,
        "randps-paper": 0.697,
        "nops-paper": 0.697,
        "alphaedge-paper": 0.697,
    },
    "tafeng": {
        "noagg": 0.796,
        "fedweight": 0.791,
        "uniweight": 0.758,
        "randps-paper": 0.810,
        "nops-paper": 0.810,
        "alphaedge-paper": 0.810,
    },
    "movielens": {
        "noagg": 0.699,
        "fedweight": 0.706,
        "uniweight": 0.696,
        "randps-paper": 0.673,
        "nops-paper": 0.719,
        "alphaedge-paper": 0.719,
    },
    "airquality": {
        "noagg": 0.631,
        "fedweight": 0.633,
        "uniweight": 0.638,
        "randps-paper": 0.646,
        "nops-paper": 0.657,
        "alphaedge-paper": 0.663,
    },
    "average": {
        "noagg": 0.699,
        "fedweight": 0.702,
        "uniweight": 0.682,
        "randps-paper": 0.707,
        "nops-paper": 0.720,
        "alphaedge-paper": 0.722,
    },
}
TABLE2: Final[Mapping[str, Mapping[str, float]]] = {
    "completejourney": {"fedweight": 0.669, "randps-paper": 0.692, "alphaedge-paper": 0.692},
    "tafeng": {"fedweight": 0.792, "randps-paper": 0.812, "alphaedge-paper": 0.812},
    "movielens": {"fedweight": 0.682, "randps-paper": 0.675, "alphaedge-paper": 0.702},
    "airquality": {"fedweight": 0.621, "randps-paper": 0.634, "alphaedge-paper": 0.656},
    "average": {"fedweight": 0.691, "randps-paper": 0.703, "alphaedge-paper": 0.716},
}
TABLE3: Final[Mapping[str, Mapping[str, float]]] = {
    "completejourney": {"fedweight": 0.416, "randps-paper": 0.647, "alphaedge-paper": 0.647},
    "tafeng": {"fedweight": 0.588, "randps-paper": 0.758, "alphaedge-paper": 0.758},
    "movielens": {"fedweight": 0.657, "randps-paper": 0.668, "alphaedge-paper": 0.705},
    "airquality": {"fedweight": 0.596, "randps-paper": 0.608, "alphaedge-paper": 0.663},
    "average": {"fedweight": 0.564, "randps-paper": 0.670, "alphaedge-paper": 0.693},
}
