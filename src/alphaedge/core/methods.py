"""Methods: compositions of a rule for weights and a rule for peers. AlphaEdge and its five rivals are functions here.

========== ==================== ===========================
method     weights              peers
========== ==================== ===========================
alphaedge  learned              greedy, two hops
randps     learned              K random ones, drawn each time
nops       learned              everybody
fedweight  by records learned   K random ones, fixed
uniweight  equal                K random ones, fixed
noagg      alone                nobody
========== ==================== ===========================

AlphaEdge, RandPS and NoPS differ in their peers, and in that AlphaEdge trusts nobody unproven (``Method.trial``) and
resets a mixed model that is of no use (``Home.reset_after``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from alphaedge.core.aggregation import Aggregation
from alphaedge.core.home import Home
from alphaedge.core.rule_check import check_rule
from alphaedge.core.rules.aggregation.alone import Alone
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.rules.selection.random import Random
from alphaedge.core.selection import Selection
from alphaedge.core.trial import Trial
from alphaedge.errors import check_choice, check_number

RESET_AFTER: Final = 40  # batches; two aggregation periods


@final
@dataclass(frozen=True, kw_only=True)
class Method:
    """A way for edges to learn from each other, in a simulation and in a fleet alike.

    aggregation: how models are weighed and mixed. selection: whom an edge pulls from.
    aggregate_every: E; the edge aggregates at every E-th batch.
    pull_ahead: batches before its aggregation at which an edge pulls; what has come by then is mixed. 0 is at the
        aggregation: a live edge then waits for its pulls, up to their deadline.
    train_on_aggregation: whether the batches that weights were learned on are trained on as well, after the mix (the
        paper's learned methods leave the aggregation batch out, 1/E of the data; its other methods train on every
        batch).
    adopt_rows: whether an id that only peers know starts from their weighted mean (cold start).
    publish: what peers may pull: the model as ``"trained"``, published before the mix, or as ``"mixed"``, after it.
        A mixed model holds little of the edge's own last training, and every further mix thins that again.
    statistics: running statistics (buffers) stay ``"local"`` or are ``"mixed"`` like parameters.
    home: the model that is never mixed, or None.
    trial: how a peer's model proves itself before it counts, or None: every model counts.
    """

    aggregation: Aggregation
    selection: Selection
    aggregate_every: int = 20
    pull_ahead: int = 0
    train_on_aggregation: bool = True
    adopt_rows: bool = True
    publish: Literal["trained", "mixed"] = "trained"
    statistics: Literal["local", "mixed"] = "local"
    home: Home | None = None
    trial: Trial | None = None

    def __post_init__(self) -> None:
        check_rule("aggregation", self.aggregation, Aggregation)
        check_rule("selection", self.selection, Selection)
        check_number("aggregate_every", self.aggregate_every, low=1, whole=True)
        check_number("pull_ahead", self.pull_ahead, low=0, high=self.aggregate_every - 1, whole=True)
        check_choice("publish", self.publish, ["trained", "mixed"])
        check_choice("statistics", self.statistics, ["local", "mixed"])

    @property
    def weight_batches(self) -> int:
        """Batches that an aggregation weighs the models on: as many as the rule wants, at most half of E."""
        return max(1, min(self.aggregation.weight_batches, self.aggregate_every // 2))


def alphaedge(**changes: Any) -> Method:
    """Learned weights, greedy two-hop peers, a home model, peers on trial. ``changes``: fields of ``Method``."""
    return _composed(
        changes, aggregation=Learned(), selection=Greedy(), home=Home(reset_after=RESET_AFTER), trial=Trial()
    )


def alphaedge_trusting(**changes: Any) -> Method:
    """AlphaEdge that trusts every member: no trial, and a mixed model that is never reset. To compare with."""
    return _composed(changes, aggregation=Learned(), selection=Greedy(), home=Home())


def randps(**changes: Any) -> Method:
    """Learned weights with K random peers at every aggregation."""
    return _composed(changes, aggregation=Learned(), selection=Random(), home=Home())


def nops(**changes: Any) -> Method:
    """Learned weights with everybody as a peer."""
    return _composed(changes, aggregation=Learned(), selection=Everybody(), home=Home())


def fedweight(**changes: Any) -> Method:
    """Federated averaging among peers: each model weighs the records it has learned from."""
    return _composed(changes, aggregation=ByRecords(), selection=Fixed())


def uniweight(**changes: Any) -> Method:
    """The plain mean of the edge and its peers."""
    return _composed(changes, aggregation=Uniform(), selection=Fixed())


def noagg(**changes: Any) -> Method:
    """Every edge on its own."""
    return _composed(changes, aggregation=Alone(), selection=Nobody())


def alphaedge_paper(**changes: Any) -> Method:
    """AlphaEdge as printed: weight rate 0.001, newcomers at 0, peers replaced in any case, no cold start, the
    aggregation batch not trained on, no home model."""
    return _as_printed(changes, selection=Greedy(keep_better=False, useless=0.0))


def randps_paper(**changes: Any) -> Method:
    """RandPS as printed, the rival of ``alphaedge_paper``."""
    return _as_printed(changes, selection=Random())


def nops_paper(**changes: Any) -> Method:
    """NoPS as printed, the rival of ``alphaedge_paper``."""
    return _as_printed(changes, selection=Everybody())


def _as_printed(changes: Mapping[str, Any], *, selection: Selection) -> Method:
    """What the literal readings of the three learned methods have in common."""
    return _composed(
        changes, aggregation=Learned.paper(), selection=selection, train_on_aggregation=False, adopt_rows=False
    )


def _composed(changes: Mapping[str, Any], **parts: Any) -> Method:
    return Method(**{**parts, **changes})


METHODS: Final[Mapping[str, Callable[[], Method]]] = {
    "alphaedge": alphaedge,
    "fedweight": fedweight,
    "uniweight": uniweight,
    "randps": randps,
    "nops": nops,
    "noagg": noagg,
    "alphaedge-trusting": alphaedge_trusting,
    "alphaedge-paper": alphaedge_paper,
    "randps-paper": randps_paper,
    "nops-paper": nops_paper,
}


def method(name: str) -> Method:
    """The method of that name with its defaults.

    >>> method("noagg").aggregation
    Alone()
    """
    check_choice("methods", name, METHODS)
    return METHODS[name]()
