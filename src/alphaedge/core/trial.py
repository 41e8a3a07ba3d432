"""The trial that a peer's model stands before it counts: it is scored on the edge's own revealed batches.

With M_i the edge's own model and X_j = M_j - M_i, the probe M_i + s X_j is scored on batches that M_i has not trained
on, and compared with M_i itself:

    e_ij = L(M_i + s X_j) / L(M_i) - 1                smoothed over rounds, e <- memory e + (1 - memory) e_ij

A model whose own excess e_ij reaches half of ``tolerance`` takes no part in this mix. A peer whose smoothed excess
reaches ``tolerance`` is excluded: its weight falls to 0, and it is no candidate for some rounds, twice as many after
each further exclusion. An exclusion is not forgotten until the smoothed excess is below a quarter of ``tolerance``,
after several exclusions several times: until then the peer stands trials, but is not mixed. However bad a model was,
no more than ``tolerance`` of it is carried over, so that a peer that recovers is not excluded for its past. A peer
whose model does not come for some rounds is excluded as well; it keeps its weight. What a peer claims to have learned
from counts as far as the trial bears it out: fully for e <= 0, down to nothing at ``tolerance``, and never for more
than ``MAX_RECORDS_RATIO`` times what the edge itself has learned from.

A trial on a few examples is a noisy measurement. Hence the three thresholds: to be left out once costs a peer little,
one bad trial excludes it only from twice the tolerance on, and to come back takes clearly good ones.

The probe is a mixture, not the peer's model alone: models of edges with other users can be bad alone and good to mix.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import MAX_RECORDS_RATIO, Mixing
from alphaedge.core.home import SMALLEST_LOSS
from alphaedge.core.links import Link, Links
from alphaedge.errors import check_number

MAX_EXCESS: Final = 100.0  # of a loss that is not finite, or as good as
MIXED_BELOW: Final = 0.5  # of the tolerance: what a model's own trial must stay below to take part in the mix
FORGIVEN_BELOW: Final = 0.25  # of the tolerance: what the smoothed excess must fall below after an exclusion


@final
@dataclass(frozen=True)
class Trial:
    """Settings of the trial.

    tolerance: excess loss at which a peer is excluded. probe: s, the peer's share in the probe.
    memory: how much of the excess is carried over from earlier rounds.
    patience: rounds in a row without a model after which a peer is excluded as well.
    first_rest, longest_rest: rounds for which an excluded peer is no candidate.
    """

    tolerance: float = 0.1
    probe: float = 0.5
    memory: float = 0.5
    patience: int = 3
    first_rest: int = 2
    longest_rest: int = 16

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, above=0)
        check_number("probe", self.probe, above=0, high=1)
        check_number("memory", self.memory, low=0, below=1)
        check_number("patience", self.patience, low=1, whole=True)
        check_number("first_rest", self.first_rest, low=1, whole=True)
        check_number("longest_rest", self.longest_rest, low=self.first_rest, whole=True)

    def hold(self, mixing: Mixing, links: Sequence[Links[Any]], aggregations: Sequence[int]) -> Mixing:
        """Put every present peer on trial; the mixing that is left, with claims as far as they are borne out.

        links: what each edge remembers of its peers, brought up to date. aggregations: rounds that each has finished.
        """
        excess = self._excess(mixing).tolist()
        present = mixing.present.tolist()
        trust = [[0.0] * len(row) for row in present]
        for g, (link, number) in enumerate(zip(links, aggregations, strict=True)):
            for p, peer in enumerate(link.neighbours):
                if not present[g][p]:
                    continue
                known = link.known[peer]
                if not known.is_excluded(number) and not math.isnan(excess[g][p]):
                    self._judge(known, excess[g][p], number)
                harmful = excess[g][p] >= MIXED_BELOW * self.tolerance
                present[g][p] = known.counts(number) and not harmful
                trust[g][p] = self.trust(known.excess)
        own, claims = mixing.records[:, :1], mixing.records[:, 1:]
        borne_out = claims.minimum(MAX_RECORDS_RATIO * own) * claims.new_tensor(trust)
        left = torch.tensor(present, device=mixing.present.device)
        return mixing.among(left, torch.cat([own, borne_out], dim=1))

    def note_presence(self, link: Link, came: bool, aggregation: int) -> None:
        """Note whether a neighbour's model came; a peer that is slow or down gives way like one of no use."""
        if came:
            link.missed, link.absences = 0, link.absences // 2
            return
        link.missed += 1
        if link.missed >= self.patience:
            self._rest(link, link.absences, aggregation)
            link.missed, link.absences = 0, link.absences + 1

    def trust(self, excess: float) -> float:
        """How far a peer's claims count, from 0 to 1."""
        return min(1.0, max(0.0, 1 - excess / self.tolerance))

    def _judge(self, link: Link, excess: float, aggregation: int) -> None:
        """Note the outcome of a trial; a peer that is excluded loses its weight and what the rule keeps of it."""
        link.excess = self.memory * min(link.excess, self.tolerance) + (1 - self.memory) * excess
        link.tried = True
        if link.excess >= self.tolerance:
            self._rest(link, link.exclusions, aggregation)
            link.exclusions += 1
            link.weight, link.numbers = 0.0, {}
        elif link.excess < FORGIVEN_BELOW * self.tolerance:
            link.exclusions //= 2

    def _rest(self, link: Link, times: int, aggregation: int) -> None:
        """Exclude a peer for some rounds; times: how often it was before."""
        rest = min(self.longest_rest, self.first_rest * 2 ** min(times, 30))
        link.excluded_until = aggregation + 1 + rest

    def _excess(self, mixing: Mixing) -> Tensor:
        """The excess loss of every peer's probe, [g, P]; 0 where a peer is not present.

        NaN where the edge's own loss is not finite: then there is nothing to compare with.
        """
        losses = mixing.losses(self.probe)
        alone, probes = losses[:, :1].expand(-1, losses.shape[1] - 1), losses[:, 1:]
        excess = (probes / alone.clamp(min=SMALLEST_LOSS) - 1).nan_to_num(nan=MAX_EXCESS, posinf=MAX_EXCESS)
        return torch.where(torch.isfinite(alone), excess.clamp(max=MAX_EXCESS), torch.nan)
