"""Settings that a simulation and a live edge have in common: the method's, and how an edge learns from a batch."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import msgspec

from alphaedge.core.compression import Precision
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.home import Home
from alphaedge.core.methods import METHODS, Method, method, private
from alphaedge.core.online import Online
from alphaedge.core.privacy.settings import DAY_SECONDS, Privacy
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.trial import Trial
from alphaedge.errors import InvalidValue, check_choice
from alphaedge.import_path import is_import_path, make_object

R = TypeVar("R")

# The optimizer of id rows: Adagrad, or one of two readings of Adam (core.optimizer).
RowOptimizer = Literal["adagrad", "lazy", "dense"]


def online(
    rate: float, id_rows: RowOptimizer, id_rate: float, local_steps: int, optimizer: str | None = None
) -> Online:
    """Adam at ``rate``, or the optimizer that an import path names; id rows by their own optimizer."""
    rule = Adam(rate, lazy_rows=id_rows != "dense") if optimizer is None else make_object("optimizer", optimizer)
    return Online(rule, local_steps, Adagrad(id_rate) if id_rows == "adagrad" else None)


def method_name(spec: str) -> str:
    """What a method is called in results: its name, the name it is given, or that of the function.

    >>> method_name("alphaedge"), method_name("median=mypackage.rules:Median"), method_name("mypackage.rules:median")
    ('alphaedge', 'median', 'median')
    """
    name, equals, _ = spec.partition("=")
    return name if equals else spec.rpartition(":")[2]


def check_method(field: str, spec: str) -> None:
    """Refuse what is neither the name of a method nor an import path."""
    if not is_import_path(spec):
        check_choice(field, spec, METHODS)


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Private publication (core.privacy.settings); each field as there."""

    epsilon: float = 8.0
    delta: float = 1e-6
    window_seconds: float = DAY_SECONDS
    user: str | None = None
    participations: int = 1
    clip: float = 1.0
    rate: float = 0.01
    tables: tuple[str, ...] = ()
    lot_batches: int = 1
    tally_batches: int = 100
    total_epsilon: float | None = None

    def __post_init__(self) -> None:
        self.make()

    def make(self) -> Privacy:
        """The settings as the core takes them."""
        return Privacy(**msgspec.structs.asdict(self))


class DisclosureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an id is named to peers (core.disclosure); each field as there."""

    min_users: int = 1
    user: str | None = None
    local: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.make()

    def make(self) -> Disclosure:
        """The settings as the core takes them."""
        return Disclosure(**msgspec.structs.asdict(self))


class MethodSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides for the methods; what is None stays as each method has it.

    ``aggregate_every`` (E), ``pull_ahead``, ``peers`` (K), ``replace`` (K') and ``select_every`` (m) apply to every
    method that has them. For every method that uses peers: ``aggregation`` and ``selection`` are import paths of rules
    of your own, ``package.module:name``, ``precision`` is that of published numbers, ``min_change`` the fraction by
    which a row must change to be published anew, ``publish_bytes`` what the rows of a publication may take,
    ``disclosure`` when an id is named to peers, and ``privacy`` what edges promise about their users. The rest applies
    to the learned methods only. Except for the first five, ``disclosure`` and ``privacy``, nothing applies to the
    methods named ``-paper``, which are literal readings.
    """

    aggregate_every: int | None = None
    pull_ahead: int | None = None
    peers: int | None = None
    replace: int | None = None
    select_every: int | None = None
    weight_rate: float | None = None
    weight_steps: int | None = None
    weight_batches: int | None = None
    newcomer: float | None = None
    remember: bool | None = None
    train_on_aggregation: bool | None = None
    train_ahead: bool | None = None
    adopt_rows: bool | None = None
    precision: Precision | None = None
    min_change: float | None = None
    publish_bytes: int | None = None
    tallies: Literal["own", "shared"] | None = None
    hear: int | None = None
    home: bool | None = None
    trial: bool | None = None
    aggregation: str | None = None
    selection: str | None = None
    disclosure: DisclosureSettings | None = None
    privacy: PrivacySettings | None = None

    def apply(self, spec: str) -> Method:
        """The method of that name, or that an import path makes, with these overrides."""
        chosen = _load(spec) if is_import_path(spec) else method(spec)
        if not spec.endswith("-paper"):
            if isinstance(chosen.aggregation, Learned):
                chosen = self._learned(chosen, chosen.aggregation)
            if chosen.aggregation.uses_peers:
                chosen = self._with_own_rules(chosen)
        selection = _replace(chosen.selection, peers=self.peers, replace=self.replace, every=self.select_every)
        chosen = _replace(chosen, selection=selection, aggregate_every=self.aggregate_every, pull_ahead=self.pull_ahead)
        if self.disclosure is not None:
            chosen = replace(chosen, disclosure=self.disclosure.make())
        return chosen if self.privacy is None else private(chosen, self.privacy.make())

    def _learned(self, chosen: Method, rule: Learned) -> Method:
        weights = {"rate": self.weight_rate, "steps": self.weight_steps, "weight_batches": self.weight_batches}
        chosen = replace(chosen, aggregation=_replace(rule, **weights, newcomer=self.newcomer, remember=self.remember))
        if self.home is not None:
            chosen = replace(chosen, home=(chosen.home or Home()) if self.home else None)
        if self.trial is not None:
            chosen = replace(chosen, trial=(chosen.trial or Trial()) if self.trial else None)
        own = {"train_on_aggregation": self.train_on_aggregation, "train_ahead": self.train_ahead}
        return _replace(chosen, **own, adopt_rows=self.adopt_rows, tallies=self.tallies, hear=self.hear)

    def _with_own_rules(self, chosen: Method) -> Method:
        if self.aggregation is not None:
            for name in ("weight_rate", "weight_steps", "weight_batches", "newcomer", "remember"):
                if (value := getattr(self, name)) is not None:
                    raise InvalidValue(f"method.{name}", value, f"no override beside aggregation = {self.aggregation}")
            chosen = replace(chosen, aggregation=make_object("method.aggregation", self.aggregation))
        if self.selection is not None:
            chosen = replace(chosen, selection=make_object("method.selection", self.selection))
        return _replace(chosen, precision=self.precision, min_change=self.min_change, publish_bytes=self.publish_bytes)


def _load(spec: str) -> Method:
    path = spec.partition("=")[2] if "=" in spec else spec
    made = make_object("methods", path)
    if not isinstance(made, Method):
        raise InvalidValue("methods", spec, f"something that makes an alphaedge.Method, not {type(made).__name__}")
    return made


def _replace(value: R, **changes: Any) -> R:
    """A copy with those changes that are given and that the value has a field for."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    known = {f.name for f in fields(value) if f.init}
    given = {name: change for name, change in changes.items() if change is not None and name in known}
    return replace(value, **given) if given else value
