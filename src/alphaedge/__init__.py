"""Online learning on edge servers that learn from each other, with no central server.

>>> import alphaedge
>>> results = alphaedge.simulate(methods=["alphaedge", "noagg"], store=alphaedge.Store(edges=3, events=500))
>>> sorted(results.summary()["methods"])
['alphaedge', 'noagg']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. Its module is imported when the name is first used (PEP 562), so that `import alphaedge`
# and the command line start without torch. A new name also needs a line below, for type checkers.
_MODULES = {
    "Adagrad": "alphaedge.core.rules.optimizer.adagrad",
    "Adam": "alphaedge.core.rules.optimizer.adam",
    "Aggregation": "alphaedge.core.aggregation",
    "Alone": "alphaedge.core.rules.aggregation.alone",
    "AlphaEdgeError": "alphaedge.errors",
    "ByRecords": "alphaedge.core.rules.aggregation.by_records",
    "Conditions": "alphaedge.simulation.conditions",
    "Dataset": "alphaedge.data.stream",
    "Edge": "alphaedge.edge.embedded",
    "Everybody": "alphaedge.core.rules.selection.everybody",
    "Field": "alphaedge.core.fields",
    "Fixed": "alphaedge.core.rules.selection.fixed",
    "Greedy": "alphaedge.core.rules.selection.greedy",
    "Home": "alphaedge.core.home",
    "IdTable": "alphaedge.core.model",
    "InvalidValue": "alphaedge.errors",
    "Learned": "alphaedge.core.rules.aggregation.learned",
    "Loss": "alphaedge.core.model",
    "Method": "alphaedge.core.methods",
    "MethodSettings": "alphaedge.settings",
    "Mixing": "alphaedge.core.aggregation",
    "Model": "alphaedge.core.model",
    "ModelError": "alphaedge.errors",
    "Nobody": "alphaedge.core.rules.selection.nobody",
    "Optimizer": "alphaedge.core.optimizer",
    "PeerMemory": "alphaedge.core.aggregation",
    "Predictor": "alphaedge.fleet.predictor",
    "Random": "alphaedge.core.rules.selection.random",
    "Results": "alphaedge.simulation.results",
    "RuleError": "alphaedge.errors",
    "SGD": "alphaedge.core.rules.optimizer.sgd",
    "Selection": "alphaedge.core.selection",
    "Settings": "alphaedge.simulation.config",
    "Store": "alphaedge.data.synthetic",
    "Stream": "alphaedge.data.stream",
    "Uniform": "alphaedge.core.rules.aggregation.uniform",
    "Verdict": "alphaedge.simulation.verdict",
    "View": "alphaedge.core.selection",
    "Weights": "alphaedge.core.aggregation",
    "load": "alphaedge.fleet.predictor",
    "simulate": "alphaedge.simulation.simulate",
    "synthetic": "alphaedge.data.synthetic",
}
# Public modules.
_SUBMODULES = {"methods": "alphaedge.core.methods"}
__all__ = [*_MODULES, *_SUBMODULES]

if TYPE_CHECKING:
    from alphaedge.core import methods as methods
    from alphaedge.core.aggregation import Aggregation as Aggregation
    from alphaedge.core.aggregation import Mixing as Mixing
    from alphaedge.core.aggregation import PeerMemory as PeerMemory
    from alphaedge.core.aggregation import Weights as Weights
    from alphaedge.core.fields import Field as Field
    from alphaedge.core.home import Home as Home
    from alphaedge.core.methods import Method as Method
    from alphaedge.core.model import IdTable as IdTable
    from alphaedge.core.model import Loss as Loss
    from alphaedge.core.model import Model as Model
    from alphaedge.core.optimizer import Optimizer as Optimizer
    from alphaedge.core.rules.aggregation.alone import Alone as Alone
    from alphaedge.core.rules.aggregation.by_records import ByRecords as ByRecords
    from alphaedge.core.rules.aggregation.learned import Learned as Learned
    from alphaedge.core.rules.aggregation.uniform import Uniform as Uniform
    from alphaedge.core.rules.optimizer.adagrad import Adagrad as Adagrad
    from alphaedge.core.rules.optimizer.adam import Adam as Adam
    from alphaedge.core.rules.optimizer.sgd import SGD as SGD
    from alphaedge.core.rules.selection.everybody import Everybody as Everybody
    from alphaedge.core.rules.selection.fixed import Fixed as Fixed
    from alphaedge.core.rules.selection.greedy import Greedy as Greedy
    from alphaedge.core.rules.selection.nobody import Nobody as Nobody
    from alphaedge.core.rules.selection.random import Random as Random
    from alphaedge.core.selection import Selection as Selection
    from alphaedge.core.selection import View as View
    from alphaedge.data.stream import Dataset as Dataset
    from alphaedge.data.stream import Stream as Stream
    from alphaedge.data.synthetic import Store as Store
    from alphaedge.data.synthetic import synthetic as synthetic
    from alphaedge.edge.embedded import Edge as Edge
    from alphaedge.errors import AlphaEdgeError as AlphaEdgeError
    from alphaedge.errors import InvalidValue as InvalidValue
    from alphaedge.errors import ModelError as ModelError
    from alphaedge.errors import RuleError as RuleError
    from alphaedge.fleet.predictor import Predictor as Predictor
    from alphaedge.fleet.predictor import load as load
    from alphaedge.settings import MethodSettings as MethodSettings
    from alphaedge.simulation.conditions import Conditions as Conditions
    from alphaedge.simulation.config import Settings as Settings
    from alphaedge.simulation.results import Results as Results
    from alphaedge.simulation.simulate import simulate as simulate
    from alphaedge.simulation.verdict import Verdict as Verdict

else:  # type checkers should refuse names that are not listed

    def __getattr__(name: str) -> Any:
        """Import a public name on first use and keep it."""
        if name in _SUBMODULES:
            value: Any = import_module(_SUBMODULES[name])
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names and the version, not the submodules that happen to be imported."""
    return sorted([*__all__, "__version__"])
