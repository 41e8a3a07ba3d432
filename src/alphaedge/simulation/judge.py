"""The judge of mixed and home models in a simulation: learns of a batch's losses when its labels are revealed."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from alphaedge.core.home import Home


@final
class Judge:
    """The discounted lead of each edge's mixed model, and the losses that are not revealed yet."""

    def __init__(
        self, home: Home, edges: int, delay: int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> None:
        self._home, self._delay = home, delay
        self._lead = torch.zeros(edges, dtype=dtype, device=device)
        # The two models' losses on the last batches, oldest first.
        self._unseen = torch.zeros(2, edges, delay, dtype=dtype, device=device)
        # Batches in a row without a use of the mixed model, and batches predicted so far.
        self._unused, self._count = torch.zeros(2, edges, dtype=torch.long, device=device)

    def shares(self, edges: Tensor, predicted: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
        """The mixed models' shares in the predictions of a span, [k, S].

        predicted: which of S batches each of k edges predicts, in order. mixed, home: the losses of the two models on
        them, which count from when they are revealed.
        """
        count, columns = predicted.sum(1, keepdim=True), torch.arange(predicted.shape[1], device=mixed.device)
        # The batches that an edge predicts, moved to the left, after those that are not revealed yet.
        order = predicted.sort(dim=1, descending=True, stable=True).indices
        losses = torch.stack([mixed.gather(1, order), home.gather(1, order)])
        waiting = torch.cat([self._unseen[:, edges], losses], dim=2)
        revealed = (columns < count) & (self._count[edges].unsqueeze(1) + columns >= self._delay)
        gaps = self._home.gap(*waiting[:, :, : len(columns)])
        lead, unused, leads = self._lead[edges], self._unused[edges], list[Tensor]()
        for seen, gap in zip(revealed.unbind(1), gaps.unbind(1), strict=True):
            leads.append(lead)
            lead = torch.where(seen, self._home.memory * lead + gap, lead)
            unused = torch.where(seen, self._home.unused(unused, lead), unused)
        self._lead[edges], self._unused[edges] = lead, unused
        self._count[edges] += count.squeeze(1)
        left = (count + torch.arange(self._delay, device=mixed.device)).expand(2, -1, -1)
        self._unseen[:, edges] = waiting.gather(2, left)
        shares = self._home.share(torch.stack(leads, dim=1))
        return torch.ones_like(mixed).scatter_(1, order, shares).masked_fill_(~predicted, 1)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All that it remembers, by name."""
        named = {"lead": self._lead, "unseen": self._unseen, "unused": self._unused, "count": self._count}
        return ((f"judge.{name}", tensor) for name, tensor in named.items())

    def lost(self, edges: list[int]) -> list[int]:
        """Those of the edges whose mixed model is to start anew."""
        return [e for e, lost in zip(edges, self._home.is_lost(self._unused[edges]).tolist(), strict=True) if lost]

    def forget(self, edges: list[int]) -> None:
        """Judge the mixed models of some edges anew. Losses that are not revealed yet are those of the old ones."""
        self._lead[edges], self._unused[edges] = 0, 0
        self._unseen[0, edges] = self._unseen[1, edges]
