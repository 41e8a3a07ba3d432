"""Methods: compositions of a rule for weights and a rule for peers. AlphaEdge and its rivals are functions here.

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
resets a mixed model that is of no use (``Home.reset_after``). ``RIVALS`` are methods of the literature besides
(docs/rivals.md): the same steps, batches and base model, with their own rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, final

from alphaedge.core.aggregation import Aggregation
from alphaedge.core.compression import PRECISIONS, Precision
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.home import Home
from alphaedge.core.model import Model, TableLayout
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.rule_check import check_rule
from alphaedge.core.rules.aggregation.alone import Alone
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.rivals.fedfomo import FedFomo
from alphaedge.core.rules.aggregation.rivals.krum import Krum
from alphaedge.core.rules.aggregation.rivals.l2c import L2C
from alphaedge.core.rules.aggregation.rivals.metropolis import Metropolis
from alphaedge.core.rules.aggregation.rivals.pens import Pens
from alphaedge.core.rules.aggregation.rivals.proximal import Proximal
from alphaedge.core.rules.aggregation.rivals.trimmed_mean import TrimmedMean
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.rules.selection.random import Random
from alphaedge.core.rules.selection.rivals.best_so_far import BestSoFar
from alphaedge.core.rules.selection.rivals.ring import Ring
from alphaedge.core.selection import Selection
from alphaedge.core.trial import Trial
from alphaedge.errors import InvalidValue, check_choice, check_number

RESET_AFTER: Final = 40  # batches; eight aggregation periods
PAPER_PERIOD: Final = 20  # E in the paper
HEARD: Final = 5  # peers beside the neighbours, as many as these


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
    train_ahead: whether the mixed model trains on the batches that wait for the mix at once, to predict with and to be
        published; for the mix it goes back to what it was before them, and trains on them again after it. Without, it
        stands still while they wait.
    adopt_rows: whether an id that only peers know starts from their weighted mean (cold start).
    publish: what peers may pull: the model as ``"trained"``, published before the mix, or as ``"mixed"``, after it.
        A mixed model holds little of the edge's own last training, and every further mix thins that again.
    precision: of published numbers: ``"int8"``, about a third of the bytes, ``"bfloat16"``, half of them with three
        digits, or ``"full"`` (core.compression).
    min_change: a trained row is published anew if it differs from what was published of it by more than this fraction,
        in its parameters or in the events of its tally; smaller changes add up until they do. 0 publishes every one.
    publish_bytes: bytes of id rows that a publication adds at most, the most useful first; the others wait for the next
        one (core.row_budget). None is no limit. The dense part comes on top.
    statistics: running statistics (buffers) stay ``"local"`` or are ``"mixed"`` like parameters.
    tallies: whether an edge knows only its ``"own"`` tallies of ids, or pulls those of its peers as well, ``"shared"``
        (core.tally).
    hear: peers whose tallies alone are pulled, beside those of the neighbours (core.hearing).
    home: the model that is never mixed, or None.
    trial: how a peer's model proves itself before it counts, or None: every model counts.
    disclosure: what must hold before an id is named to peers (core.disclosure); without, every id is.
    privacy: what an edge promises about its users, or None. With it, peers pull a released model instead of the edge's
        own, and learn nothing else of the edge (``private``).
    """

    aggregation: Aggregation
    selection: Selection
    aggregate_every: int = 5
    pull_ahead: int = 0
    train_on_aggregation: bool = True
    train_ahead: bool = True
    adopt_rows: bool = True
    publish: Literal["trained", "mixed"] = "trained"
    precision: Precision = "int8"
    min_change: float = 0.0
    publish_bytes: int | None = None
    statistics: Literal["local", "mixed"] = "local"
    tallies: Literal["own", "shared"] = "own"
    hear: int = HEARD
    home: Home | None = None
    trial: Trial | None = None
    disclosure: Disclosure | None = None
    privacy: Privacy | None = None

    def __post_init__(self) -> None:
        check_rule("aggregation", self.aggregation, Aggregation)
        check_rule("selection", self.selection, Selection)
        check_number("aggregate_every", self.aggregate_every, low=1, whole=True)
        check_number("pull_ahead", self.pull_ahead, low=0, high=self.aggregate_every - 1, whole=True)
        check_choice("publish", self.publish, ["trained", "mixed"])
        check_choice("precision", self.precision, PRECISIONS)
        check_number("min_change", self.min_change, low=0)
        if self.publish_bytes is not None:
            check_number("publish_bytes", self.publish_bytes, low=1, whole=True)
        check_choice("statistics", self.statistics, ["local", "mixed"])
        check_choice("tallies", self.tallies, ["own", "shared"])
        check_number("hear", self.hear, low=0, whole=True)
        if self.privacy is not None and self.disclosure is not None:
            raise InvalidValue("disclosure", self.disclosure, "nothing beside privacy, which has thresholds of its own")
        if self.privacy is not None and self.publish == "mixed":
            raise InvalidValue(
                "publish", self.publish, "trained, with privacy: a mix shows what its weights were learned on"
            )

    def told(self, table: TableLayout) -> int:
        """How many numbers of a row peers are told: the parameters, and the tally if tallies are shared."""
        return table.told if self.tallies == "shared" else table.width

    @property
    def asks_for_new_ids(self) -> bool:
        """Whether peers are asked for rows of ids that are new here; not if an id waits until enough users name it."""
        return self.adopt_rows and not (self.disclosure and self.disclosure.counts_users)

    @property
    def others(self) -> int:
        """How many peers are heard beside the neighbours. With privacy, tallies come in whole publications alone."""
        return self.hear if self.tallies == "shared" and self.privacy is None else 0

    def suited(self, model: Model) -> "Method":
        """The method for a model: of one without tallies there is nothing to hear."""
        return self if any(table.tallied for table in model.tables) else replace(self, hear=0)

    @property
    def weight_batches(self) -> int:
        """Batches that an aggregation weighs the models on: as many as the rule wants, fewer than E."""
        return max(1, min(self.aggregation.weight_batches, self.aggregate_every - 1))


def alphaedge(**changes: Any) -> Method:
    """Learned weights, greedy two-hop peers, shared tallies, a home model, peers on trial.

    changes: fields of ``Method``.
    """
    return _composed(
        changes,
        aggregation=Learned(),
        selection=Greedy(),
        tallies="shared",
        home=Home(reset_after=RESET_AFTER),
        trial=Trial(),
    )


def alphaedge_trusting(**changes: Any) -> Method:
    """AlphaEdge that trusts every member: no trial, and a mixed model that is never reset. To compare with."""
    return _composed(changes, aggregation=Learned(), selection=Greedy(), tallies="shared", home=Home())


def randps(**changes: Any) -> Method:
    """Learned weights with K random peers at every aggregation."""
    return _composed(changes, aggregation=Learned(), selection=Random(), tallies="shared", home=Home())


def nops(**changes: Any) -> Method:
    """Learned weights with everybody as a peer."""
    return _composed(changes, aggregation=Learned(), selection=Everybody(), tallies="shared", home=Home())


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
    """AlphaEdge as printed: E = 20, ten weight steps at 0.001, all digits published, newcomers at 0, peers replaced in
    any case, no cold start, the aggregation batch not trained on, no training ahead of the mix, no home model."""
    return _as_printed(changes, selection=Greedy(keep_better=False, useless=0.0))


def randps_paper(**changes: Any) -> Method:
    """RandPS as printed, the rival of ``alphaedge_paper``."""
    return _as_printed(changes, selection=Random())


def nops_paper(**changes: Any) -> Method:
    """NoPS as printed, the rival of ``alphaedge_paper``."""
    return _as_printed(changes, selection=Everybody())


def pens(**changes: Any) -> Method:
    """PENS (Onoszko et al., 2021): the mean with those peers whose models lose least on own batches."""
    return _composed(changes, aggregation=Pens(), selection=BestSoFar())


def fedfomo(**changes: Any) -> Method:
    """FedFomo (Zhang et al., 2021): peers weigh by their loss drop over their distance."""
    return _composed(changes, aggregation=FedFomo(), selection=BestSoFar())


def l2c(**changes: Any) -> Method:
    """L2C (Li et al., 2022): softmax weights over everybody that descend the loss of the mixture."""
    return _composed(changes, aggregation=L2C(), selection=Everybody())


def dpsgd(**changes: Any) -> Method:
    """D-PSGD (Lian et al., 2017): a ring with Metropolis-Hastings weights."""
    return _composed(changes, aggregation=Metropolis(), selection=Ring())


def apfl(**changes: Any) -> Method:
    """APFL (Deng et al., 2020): FedAvg's model and one that is never mixed, blended by a share learned online."""
    return _composed(changes, aggregation=ByRecords(), selection=Fixed(), home=Home(start=0.5))


def ditto(**changes: Any) -> Method:
    """Ditto (Li et al., 2021): own training with a pull towards the mean of the peers."""
    return _composed(changes, aggregation=Proximal(), selection=Fixed())


def median(**changes: Any) -> Method:
    """The median of each number (Yin et al., 2018)."""
    return _composed(changes, aggregation=TrimmedMean(trim=0.5), selection=Fixed())


def trimmed_mean(**changes: Any) -> Method:
    """The mean of each number without its extremes (Yin et al., 2018)."""
    return _composed(changes, aggregation=TrimmedMean(), selection=Fixed())


def krum(**changes: Any) -> Method:
    """Krum (Blanchard et al., 2017): the one model that has the most company."""
    return _composed(changes, aggregation=Krum(kept=1), selection=Fixed())


def multi_krum(**changes: Any) -> Method:
    """Multi-Krum (Blanchard et al., 2017): the mean of the models that have the most company."""
    return _composed(changes, aggregation=Krum(), selection=Fixed())


def private(method: Method, privacy: Privacy) -> Method:
    """A method whose edges publish privately. A method without peers stays as it is.

    Whom an edge pulls from is seen by those peers, so neighbours are drawn at random: a choice by learned weights would
    tell of the events that they were learned on. Weights are learned as before, and never told.
    """
    if not method.aggregation.uses_peers:
        return method
    peers = method.selection.peers
    selection = method.selection if peers is None else Random(peers, method.selection.every)
    return replace(method, selection=selection, privacy=privacy)


def _as_printed(changes: Mapping[str, Any], *, selection: Selection) -> Method:
    """What the literal readings of the three learned methods have in common."""
    literal = {"train_on_aggregation": False, "train_ahead": False, "adopt_rows": False, "precision": "full"}
    return _composed(changes, aggregation=Learned.paper(), selection=selection, aggregate_every=PAPER_PERIOD, **literal)


def _composed(changes: Mapping[str, Any], **parts: Any) -> Method:
    return Method(**{**parts, **changes})


# Methods of the literature, each with the settings of its authors as far as they have a counterpart (docs/rivals.md).
RIVALS: Final[Mapping[str, Callable[[], Method]]] = {
    "pens": pens,
    "fedfomo": fedfomo,
    "l2c": l2c,
    "dpsgd": dpsgd,
    "apfl": apfl,
    "ditto": ditto,
    "median": median,
    "trimmed-mean": trimmed_mean,
    "krum": krum,
    "multi-krum": multi_krum,
}
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
    **RIVALS,
}


def method(name: str) -> Method:
    """The method of that name with its defaults.

    >>> method("noagg").aggregation
    Alone()
    """
    check_choice("methods", name, METHODS)
    return METHODS[name]()
