"""The blends of mixed and home models in a simulation: each learns of a batch's loss when its labels are revealed."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from alphaedge.core.home import Home, no_evidence


@final
class Judge:
    """The evidence about each edge's blend, and the batches that are not revealed yet."""

    def __init__(
        self, home: Home, edges: int, delay: int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> None:
        self._home, self._delay = home, delay
        self._evidence = no_evidence(edges, dtype, device)
        # The parabolas of the last batches, oldest first.
        self._unseen = torch.zeros(edges, delay, 2, dtype=dtype, device=device)
        # Batches in a row without a use of the mixed model, and batches predicted so far.
        self._unused, self._count = torch.zeros(2, edges, dtype=torch.long, device=device)

    def shares(self, edges: Tensor, predicted: Tensor, parabolas: Tensor) -> Tensor:
        """The mixed models' shares in the predictions of a span, [k, S].

        predicted: which of S batches each of k edges predicts, in order. parabolas: [k, S, 2], the loss of each batch
        by the share, which counts from when its labels are revealed.
        """
        count = predicted.sum(1, keepdim=True)
        columns = torch.arange(int(count.max()), device=predicted.device)
        # The batches that an edge predicts, moved to the left, after those that are not revealed yet.
        order = predicted.sort(dim=1, descending=True, stable=True).indices[:, : len(columns)]
        new = parabolas.gather(1, order.unsqueeze(2).expand(-1, -1, 2))
        waiting = torch.cat([self._unseen[edges], new], dim=1)
        revealed = (columns < count) & (self._count[edges].unsqueeze(1) + columns >= self._delay)
        evidence, unused = self._evidence[edges], self._unused[edges]
        share, found = self._home.share(evidence), list[Tensor]()
        for column, seen in enumerate(revealed.unbind(1)):
            found.append(share)
            evidence = torch.where(seen.unsqueeze(1), self._home.update(evidence, waiting[:, column]), evidence)
            share = self._home.share(evidence)
            unused = torch.where(seen, self._home.unused(unused, share), unused)
        self._evidence[edges], self._unused[edges] = evidence, unused
        self._count[edges] += count.squeeze(1)
        left = count + torch.arange(self._delay, device=predicted.device)
        self._unseen[edges] = waiting.gather(1, left.unsqueeze(2).expand(-1, -1, 2))
        shares = torch.stack(found, dim=1)
        return shares.new_ones(predicted.shape).scatter_(1, order, shares).masked_fill_(~predicted, 1)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All that it remembers, by name."""
        named = {"evidence": self._evidence, "unseen": self._unseen, "unused": self._unused, "count": self._count}
        return ((f"judge.{name}", tensor) for name, tensor in named.items())

    def lost(self, edges: list[int]) -> list[int]:
        """Those of the edges whose mixed model is to start anew."""
        return [e for e, lost in zip(edges, self._home.is_lost(self._unused[edges]).tolist(), strict=True) if lost]

    def forget(self, edges: list[int]) -> None:
        """Judge the blends of some edges anew. Batches that are not revealed yet are about their old mixed models."""
        self._evidence[edges], self._unused[edges], self._unseen[edges] = 0, 0, 0
