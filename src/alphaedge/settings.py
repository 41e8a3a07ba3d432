"""Settings that a simulation and a live edge have in common: the method's, and how an edge learns from a batch."""

from dataclasses import replace
from typing import Any, Literal, TypeVar

import msgspec

from alphaedge.core.aggregation import Learned
from alphaedge.core.home import Home
from alphaedge.core.methods import Method, method
from alphaedge.core.online import Online
from alphaedge.core.optimizer import Adagrad, Adam
from alphaedge.core.selection import Fixed, Greedy, Random
from alphaedge.errors import check_number

R = TypeVar("R", Method, Learned, Greedy, Random, Fixed)

# The rule of id rows: Adagrad, or one of two readings of Adam (core.optimizer).
RowRule = Literal["adagrad", "lazy", "dense"]


def online(rate: float, id_rows: RowRule, id_rate: float, local_steps: int) -> Online:
    """Adam at ``rate``; rows of ids by their own rule."""
    adam = Adam(rate, rows="dense" if id_rows == "dense" else "lazy")
    return Online(adam, local_steps, rows=Adagrad(id_rate) if id_rows == "adagrad" else None)


class MethodSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Overrides for the methods; what is None stays as each method has it.

    ``aggregate_every`` (E), ``peers`` (K), ``replace`` (K') and ``select_every`` (m) apply to every method that has
    them; the rest to the learned methods only, and never to those named ``-paper``, which are literal readings.
    """

    aggregate_every: int | None = None
    peers: int | None = None
    replace: int | None = None
    select_every: int | None = None
    weight_rate: float | None = None
    weight_steps: int | None = None
    newcomer: float | None = None
    remember: bool | None = None
    gather: int | None = None
    train_on_aggregation: bool | None = None
    adopt_rows: bool | None = None
    home: bool | None = None

    def apply(self, name: str) -> Method:
        """The method of that name with these overrides."""
        chosen = method(name)
        selection = chosen.selection
        if isinstance(selection, Greedy):
            selection = _replace(selection, peers=self.peers, replace=self.replace, every=self.select_every)
        elif isinstance(selection, Random):
            selection = _replace(selection, peers=self.peers, every=self.select_every)
        elif isinstance(selection, Fixed):
            selection = _replace(selection, peers=self.peers)
        rule = chosen.aggregation
        changes: dict[str, Any] = {}
        if isinstance(rule, Learned) and not name.endswith("-paper"):
            rule = _replace(
                rule,
                rate=self.weight_rate,
                steps=self.weight_steps,
                newcomer=self.newcomer,
                remember=self.remember,
                batches=self.gather,
            )
            changes = {"train_on_aggregation": self.train_on_aggregation, "adopt_rows": self.adopt_rows}
            if self.home is not None:
                chosen = replace(chosen, home=(chosen.home or Home()) if self.home else None)
        if self.aggregate_every is not None:
            check_number("aggregate_every", self.aggregate_every, low=1, whole=True)
        return _replace(chosen, selection=selection, aggregation=rule, aggregate_every=self.aggregate_every, **changes)


def _replace(record: R, **changes: Any) -> R:
    return replace(record, **{k: v for k, v in changes.items() if v is not None})
