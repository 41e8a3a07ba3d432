"""AlphaEdge and its five rivals: each a rule for weights and a rule for peers.

========== ==================== ===========================
method     weights              peers
========== ==================== ===========================
AlphaEdge  learned              greedy, two hops
RandPS     learned              K random ones, anew each time
NoPS       learned              everybody
FedWeight  by records learned   K random ones, fixed
UniWeight  equal                K random ones, fixed
NoAgg      alone                nobody
========== ==================== ===========================

AlphaEdge, RandPS and NoPS differ in their peers alone, so with at most K + 1 edges they are one method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

from alphaedge.core.aggregation import Aggregation, Alone, ByRecords, Learned, Uniform
from alphaedge.core.home import Home
from alphaedge.core.selection import Everybody, Fixed, Greedy, Nobody, Random, Selection
from alphaedge.errors import check_choice, check_number


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way for edges to learn from each other. Abstract: the six below are final and differ in their defaults.

    aggregate_every: E; the edge aggregates at every E-th batch.
    train_on_aggregation: whether the aggregation batch is trained on as well, after the mix (the paper's learned
        methods leave it out, 1/E of the data; its other methods train on every batch).
    adopt_rows: whether an id that only peers know starts from their weighted mean (cold start).
    publish: what others may fetch: the model as ``"trained"``, published before the mix, or as ``"mixed"``, after it.
        A mixed model holds little of the edge's own last training, and every further mix thins that again.
    statistics: running statistics (buffers) stay ``"local"`` or are ``"mixed"`` like parameters.
    home: the never-mixed twin, or None.
    """

    aggregation: Aggregation
    selection: Selection
    aggregate_every: int = 20
    train_on_aggregation: bool = True
    adopt_rows: bool = True
    publish: Literal["trained", "mixed"] = "trained"
    statistics: Literal["local", "mixed"] = "local"
    home: Home | None = None

    def __post_init__(self) -> None:
        check_number("aggregate_every", self.aggregate_every, low=1, whole=True)
        check_choice("publish", self.publish, ["trained", "mixed"])
        check_choice("statistics", self.statistics, ["local", "mixed"])

    @property
    def gathered(self) -> int:
        """How many batches an aggregation learns its weights on."""
        if not isinstance(self.aggregation, Learned):
            return 1
        return max(1, min(self.aggregation.batches, self.aggregate_every // 2))


# What the literal readings of the three learned methods have in common.
_AS_PRINTED: Final[Mapping[str, Any]] = {
    "aggregation": Learned.paper(),
    "train_on_aggregation": False,
    "adopt_rows": False,
    "home": None,
}


@final
@dataclass(frozen=True, kw_only=True)
class AlphaEdge(Method):
    """Learned weights, greedy two-hop peers. ``AlphaEdge.paper()`` is the literal reading of the paper."""

    aggregation: Aggregation = field(default_factory=Learned)
    selection: Selection = field(default_factory=Greedy)
    home: Home | None = field(default_factory=Home)

    @classmethod
    def paper(cls) -> "AlphaEdge":
        """As printed: weight rate 0.001, newcomers at 0, replaced in any case, no cold start, the aggregation batch
        not trained on, no home model."""
        return cls(selection=Greedy(keep_better=False, useless=0.0), **_AS_PRINTED)


@final
@dataclass(frozen=True, kw_only=True)
class RandPS(Method):
    """AlphaEdge with K random peers at every aggregation."""

    aggregation: Aggregation = field(default_factory=Learned)
    selection: Selection = field(default_factory=Random)
    home: Home | None = field(default_factory=Home)

    @classmethod
    def paper(cls) -> "RandPS":
        """The rival of ``AlphaEdge.paper()``."""
        return cls(**_AS_PRINTED)


@final
@dataclass(frozen=True, kw_only=True)
class NoPS(Method):
    """AlphaEdge with everybody as a peer."""

    aggregation: Aggregation = field(default_factory=Learned)
    selection: Selection = field(default_factory=Everybody)
    home: Home | None = field(default_factory=Home)

    @classmethod
    def paper(cls) -> "NoPS":
        """The rival of ``AlphaEdge.paper()``."""
        return cls(**_AS_PRINTED)


@final
@dataclass(frozen=True, kw_only=True)
class FedWeight(Method):
    """Federated averaging among peers: each model weighs the records it has learned from."""

    aggregation: Aggregation = field(default_factory=ByRecords)
    selection: Selection = field(default_factory=Fixed)


@final
@dataclass(frozen=True, kw_only=True)
class UniWeight(Method):
    """The plain mean of the edge and its peers."""

    aggregation: Aggregation = field(default_factory=Uniform)
    selection: Selection = field(default_factory=Fixed)


@final
@dataclass(frozen=True, kw_only=True)
class NoAgg(Method):
    """Every edge on its own."""

    aggregation: Aggregation = field(default_factory=Alone)
    selection: Selection = field(default_factory=Nobody)


METHODS: Final[Mapping[str, Callable[[], Method]]] = {
    "alphaedge": AlphaEdge,
    "fedweight": FedWeight,
    "uniweight": UniWeight,
    "randps": RandPS,
    "nops": NoPS,
    "noagg": NoAgg,
    "alphaedge-paper": AlphaEdge.paper,
    "randps-paper": RandPS.paper,
    "nops-paper": NoPS.paper,
}


def method(name: str) -> Method:
    """The method of that name with its defaults.

    >>> method("noagg").aggregation
    Alone()
    """
    check_choice("methods", name, METHODS)
    return METHODS[name]()
