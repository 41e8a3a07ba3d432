"""What the world does to a fleet: late feedback, stale models, edges that are down, hostile, noisy, new or gone.

Each is drawn from the run's seed alone, so that every method of an experiment meets the same misfortunes.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from alphaedge.attacks.attack import Attack
from alphaedge.attacks.catalog import ATTACKS
from alphaedge.errors import InvalidValue, check_choice, check_number


class Conditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of these compose.

    delay: feedback arrives this many batches later; the step at t uses batch t - delay (``Engine._plan``).
    staleness: pulled models are this many publications old (before the first: the peer's initial model).
    drop: share of its aggregation periods in which an edge cannot be pulled from.
        An edge whose stream has ended stays as it was in its last period.
    drop_stretch: mean length of an outage in periods; 1 draws every period on its own.
    down_edges_pull: whether an edge that is down can still pull from others (it learns on in any case).
    adversaries: share of edges, drawn per seed, that are hostile.
    attack: what the hostile edges do (``alphaedge.attacks``); otherwise they follow the protocol.
    label_noise: share of labels flipped on each edge of ``noisy_edges`` (scored as flipped, like real noise).
    noisy_edges: edges with label noise.
    joins, leaves: for some edges, the moment (0 to 1 of the run) at which they appear or go for good.
    bootstrap: whether an edge that joins late starts from peers' models (``core.start``).
    """

    delay: int = 0
    staleness: int = 0
    drop: float = 0.0
    drop_stretch: float = 1.0
    down_edges_pull: bool = True
    adversaries: float = 0.0
    attack: str = "flipped-labels"
    label_noise: float = 0.0
    noisy_edges: tuple[int, ...] = (0,)
    joins: dict[int, float] = {}
    leaves: dict[int, float] = {}
    bootstrap: bool = True

    def __post_init__(self) -> None:
        check_number("delay", self.delay, low=0, whole=True)
        check_number("staleness", self.staleness, low=0, whole=True)
        check_number("drop", self.drop, low=0, high=1)
        check_number("drop_stretch", self.drop_stretch, low=1)
        check_number("adversaries", self.adversaries, low=0, high=1)
        check_choice("attack", self.attack, ATTACKS)
        check_number("label_noise", self.label_noise, low=0, high=1)
        for name in ("joins", "leaves"):
            for edge, moment in getattr(self, name).items():
                check_number(f"{name}[{edge}]", moment, low=0, high=1)
        for edge in set(self.joins) & set(self.leaves):
            if self.leaves[edge] <= self.joins[edge]:
                raise InvalidValue(f"leaves[{edge}]", self.leaves[edge], f"later than it joins, {self.joins[edge]}")

    def check_edges(self, edges: int) -> None:
        """Refuse edges that the data set does not have."""
        named: dict[str, Iterable[int]] = {
            "noisy_edges": self.noisy_edges if self.label_noise else (),
            "joins": self.joins,
            "leaves": self.leaves,
        }
        for name, some in named.items():
            for edge in some:
                if not 0 <= edge < edges:
                    raise InvalidValue(name, edge, f"an edge from 0 to {edges - 1}")

    def draw_adversaries(self, edges: int, seed: int) -> list[int]:
        """The hostile edges of this seed; their share is rounded to the nearest number of edges."""
        count = int(self.adversaries * edges + 0.5)
        return sorted(_rng(seed, 1).permutation(edges)[:count].tolist())

    def make_attack(self) -> Attack:
        """What the hostile edges do."""
        return ATTACKS[self.attack]()

    def draw_noise(self, edge: int, events: int, share: float, seed: int) -> np.ndarray:
        """Which labels of a noisy edge are flipped, [events]."""
        flips: np.ndarray = _rng(seed, 2, edge).random(events) < share
        return flips

    def draw_outages(self, edge: int, periods: int, seed: int) -> np.ndarray:
        """In which of its periods an edge is down, [periods]: a two-state chain with the right share and length."""
        rng = _rng(seed, 3, edge)
        if self.drop in (0.0, 1.0):
            return np.full(periods, bool(self.drop))
        # Long spans of a large share need an entry rate of at most 1, so the stretch is lengthened if need be.
        stretch = max(self.drop_stretch, self.drop / (1 - self.drop)) if self.drop_stretch > 1 else 1.0
        leave = 1 / stretch if stretch > 1 else 1 - self.drop
        enter = leave * self.drop / (1 - self.drop) if stretch > 1 else self.drop
        draws = rng.random(periods + 1)
        down = np.zeros(periods, dtype=bool)
        now = bool(draws[0] < self.drop)
        for period in range(periods):
            down[period] = now
            now = bool(draws[period + 1] >= leave) if now else bool(draws[period + 1] < enter)
        return down


def _rng(seed: int, *keys: int) -> np.random.Generator:
    return np.random.default_rng([seed, *keys])
