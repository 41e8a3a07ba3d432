"""How much noise goes where: one Gaussian mechanism over the three things that a private step tells.

A step sums what users add to the gradient, to the tallies of released id tables, and to the running statistics. Each
part p is clipped to a length c_p and gets noise of sigma c_p / w_p, with sum w_p^2 = 1. Scaled by w_p / c_p, a user
adds a vector of length at most 1 to which noise of sigma is added: one mechanism, for which
``core.privacy.accountant`` says what sigma must be. Tallies of several steps get noise together, so a user who takes
part m times adds m c_p at once; their noise is larger by sqrt(m) for that.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, sqrt
from typing import Final, final

from torch import Tensor

from alphaedge.core.labels import LABELS
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import NOISE_DELTA, noise_multiplier, row_threshold
from alphaedge.core.privacy.settings import Privacy
from alphaedge.errors import check_choice

GRADIENT_PART: Final = 0.35  # w^2 of each part, as far as a model has it (docs/decisions/0021)
TALLY_PART: Final = 0.6
STATISTICS_PART: Final = 0.05
USUAL_EVENTS: Final = 16  # of one user in a lot: what clips of sums over a user's events allow for
THRESHOLDS: Final = 256  # computed at once


@final
@dataclass(frozen=True)
class Mechanism:
    """The noise and clips of private steps of one model.

    tables: released id tables, by number. gradient_noise, tally_noise, statistics_noise: standard deviations.
    scale_noise: that of the first lot, which teaches scales alone. tally_every: steps for which tallies wait. rows: the
    most rows that one user alone may stand behind, in one lot. participations: of a user in a window.
    """

    clip: float
    tally_clip: float
    statistics_clip: float
    gradient_noise: float
    tally_noise: float
    statistics_noise: float
    scale_noise: float
    tally_every: int
    tables: tuple[int, ...]
    rows: int
    participations: int
    delta: float

    @classmethod
    def of(cls, privacy: Privacy, model: Model, statistics: int, lot: int) -> "Mechanism":
        """That of a model with so many numbers that have running statistics, in lots of so many events."""
        tables = released_tables(privacy, model)
        entries = sum(len(model.tables[t].fields) for t in tables)
        statistics += LABELS in model.initial_buffers()
        present = {"gradient": GRADIENT_PART, "tally": TALLY_PART * bool(tables)}
        present["statistics"] = STATISTICS_PART * bool(statistics)
        sigma, total = noise_multiplier(privacy), sum(present.values())
        noise = {name: sigma / sqrt(part / total) if part else 0.0 for name, part in present.items()}
        events = 1 if privacy.user is None else USUAL_EVENTS
        tally_clip, statistics_clip = sqrt(2 * max(1, entries) * events), sqrt(2 * max(1, statistics) * events)
        return cls(
            clip=privacy.clip,
            tally_clip=tally_clip,
            statistics_clip=statistics_clip,
            gradient_noise=noise["gradient"] * privacy.clip,
            tally_noise=noise["tally"] * tally_clip * sqrt(privacy.participations),
            statistics_noise=noise["statistics"] * statistics_clip,
            scale_noise=sigma * sqrt(statistics * events),
            tally_every=max(1, privacy.tally_batches // privacy.lot_batches),
            tables=tables,
            rows=max(1, entries * (1 if privacy.user is None else lot)),
            participations=privacy.participations,
            delta=(1 - NOISE_DELTA) * privacy.delta,
        )

    def passes(self, counts: Tensor, steps: Tensor) -> Tensor:
        """Which rows may be told, by their noisy counts and how often noise went over them (0: never)."""
        known = -(-max(1, int(steps.max())) // THRESHOLDS) * THRESHOLDS
        most, rows = self.participations * self.tally_clip, self.rows * self.participations
        found = _thresholds(known, self.tally_noise, most, rows, self.delta)
        return counts >= counts.new_tensor([inf, *found])[steps]


@lru_cache(maxsize=16)
def _thresholds(known: int, noise: float, most: float, rows: int, delta: float) -> tuple[float, ...]:
    """The first so many thresholds of a row."""
    times = range(1, known + 1)
    return tuple(row_threshold(n, noise=noise, most=most, rows=rows, delta=delta) for n in times)


def released_tables(privacy: Privacy, model: Model) -> tuple[int, ...]:
    """The id tables whose rows may leave, by number."""
    of = {model.fields[f]: t for t, table in enumerate(model.tables) for f in table.fields}
    for name in privacy.tables:
        check_choice("privacy.tables", name, of)
    if privacy.user is not None:
        check_choice("privacy.user", privacy.user, model.fields)
    return tuple(sorted({of[name] for name in privacy.tables}))
