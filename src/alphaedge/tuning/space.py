"""Which settings a search varies, and in which range. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import msgspec

from alphaedge.core.fields import KEYED
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue
from alphaedge.experiments.grid import full_key, nested
from alphaedge.simulation.config import Settings, build
from alphaedge.toml import merge

MIN_BATCHES: Final = 40  # that the smallest edge must have in the part that is searched on
MIN_AGGREGATIONS: Final = 4  # the same of the median edge


@final
class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A setting by its key in a configuration file, its default, and its choices or a range that counts by ratio."""

    key: str
    default: float
    choices: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    def allows(self, value: object) -> bool:
        """Whether this is one of the choices, or a number in the range."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole or self.choices else int | float):
            return False
        return value in self.choices if self.choices else self.low <= value <= self.high


def knobs(settings: Settings, method: str, part: Dataset, vary: Sequence[str] = ()) -> list[Knob]:
    """The settings worth searching over for this data, ``part`` of which is searched on.

    vary: some of them, by their keys.
    """
    found = _learning(settings, part) + _exchange(settings, method, part)
    if not vary:
        return found
    known = {knob.key: knob for knob in found}
    wanted = [full_key(name, "vary") for name in vary]
    for key in wanted:
        if key not in known:
            raise InvalidValue("vary", key, "one of " + ", ".join(known))
    return [known[key] for key in wanted]


def changed(settings: Settings, values: Mapping[str, Any], **more: Any) -> Settings:
    """Settings with these values, by their keys."""
    raw = merge(msgspec.to_builtins(settings), nested(values))
    return build({key: value for key, value in (raw | more).items() if value is not None})


def _learning(settings: Settings, part: Dataset) -> list[Knob]:
    size, rate = settings.size, settings.model_rate
    fewest, smallest = min((len(s), name) for s, name in zip(part.streams, part.edge_names, strict=True))
    if fewest < size:
        allowed = f"a part in which every edge has a batch of {size} events; edge {smallest} has {fewest} there"
        raise InvalidValue("part", settings.first, allowed)
    # Each is a multiple of the smallest one: scores are of equally many events, whatever the batch size.
    halves = () if size % 2 else (size // 2,)
    sizes = tuple(s for s in (*halves, size, size * 2, size * 4) if s == size or fewest >= MIN_BATCHES * s)
    found = [
        Knob(key="rate", default=rate, low=rate / 30, high=rate * 3),
        Knob(key="local_steps", default=settings.local_steps, low=1, high=max(16, settings.local_steps), whole=True),
    ]
    if len(sizes) > 1:
        found.append(Knob(key="batch_size", default=size, choices=sizes))
    if settings.row_optimizer == "adagrad" and any(f.kind in KEYED for f in part.fields):
        found.append(
            Knob(key="id_rate", default=settings.id_rate, low=settings.id_rate / 10, high=settings.id_rate * 5)
        )
    return found


def _exchange(settings: Settings, method: str, part: Dataset) -> list[Knob]:
    chosen = settings.method.apply(method)
    if not chosen.aggregation.uses_peers:
        return []
    every, peers, others = chosen.aggregate_every, chosen.selection.peers, len(part.streams) - 1
    batches = sorted(len(s) // settings.size for s in part.streams)[len(part.streams) // 2]
    longest = max(every, min(4 * every, batches // MIN_AGGREGATIONS))
    found = [Knob(key="method.aggregate_every", default=every, low=min(2, every), high=longest, whole=True)]
    if peers is not None and others > 1:
        most = min(others, max(10, peers))
        found.append(Knob(key="method.peers", default=min(peers, most), low=1, high=most, whole=True))
    return found
