"""Online learning on edge servers that learn from each other, with no central server.

>>> import alphaedge
>>> found = alphaedge.simulate(methods=["alphaedge", "noagg"], store=alphaedge.Store(edges=3, events=500))
>>> sorted(found.summary()["methods"])
['alphaedge', 'noagg']
"""

from typing import TYPE_CHECKING, Any

from alphaedge.core.aggregation import Alone, ByRecords, Learned, Uniform
from alphaedge.core.fields import Field
from alphaedge.core.home import Home
from alphaedge.core.methods import AlphaEdge, FedWeight, Method, NoAgg, NoPS, RandPS, UniWeight
from alphaedge.core.model import IdTable, Loss, Model
from alphaedge.core.optimizer import SGD, Adagrad, Adam
from alphaedge.core.selection import Everybody, Fixed, Greedy, Nobody, Random
from alphaedge.data.stream import Dataset, Stream
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.errors import AlphaEdgeError, InvalidValue, ModelError
from alphaedge.settings import MethodSettings
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.config import Settings
from alphaedge.simulation.results import Results
from alphaedge.simulation.simulate import simulate

if TYPE_CHECKING:
    from alphaedge.edge.embedded import Edge

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "Alone",
    "AlphaEdge",
    "AlphaEdgeError",
    "ByRecords",
    "Conditions",
    "Dataset",
    "Edge",
    "Everybody",
    "FedWeight",
    "Field",
    "Fixed",
    "Greedy",
    "Home",
    "IdTable",
    "InvalidValue",
    "Learned",
    "Loss",
    "Method",
    "MethodSettings",
    "Model",
    "ModelError",
    "NoAgg",
    "NoPS",
    "Nobody",
    "RandPS",
    "Random",
    "Results",
    "Settings",
    "Store",
    "Stream",
    "UniWeight",
    "Uniform",
    "simulate",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    """``Edge`` needs what the extra "serve" installs, so it is looked for only when somebody wants it."""
    if name == "Edge":
        from alphaedge.edge.embedded import Edge

        return Edge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
