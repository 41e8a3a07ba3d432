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
        # A ring of the two models' losses by batch.
        self._unseen = torch.zeros(2, edges, delay + 1, dtype=dtype, device=device)
        # Batches in a row without a use of the mixed model, and batches predicted so far.
        self._unused, self._count = torch.zeros(2, edges, dtype=torch.long, device=device)

    def shares(self, edges: Tensor, predicted: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
        """The mixed models' shares in the predictions of a span, [k, S].

        predicted: which of S batches each of k edges predicts, in order. mixed, home: the losses of the two models on
        them, which count from when they are revealed.
        """
        found = torch.ones_like(mixed)
        for s in range(predicted.shape[1]):
            places = predicted[:, s].nonzero().flatten()
            some = edges[places]
            found[places, s] = self._home.share(self._lead[some])
            self._unseen[:, some, self._count[some] % (self._delay + 1)] = torch.stack(
                [mixed[places, s], home[places, s]]
            )
            self._count[some] += 1
            seen = some[self._count[some] > self._delay]
            mixed_then, home_then = self._unseen[:, seen, self._count[seen] % (self._delay + 1)]
            self._lead[seen] = self._home.update(self._lead[seen], mixed_then, home_then)
            self._unused[seen] = self._home.unused(self._unused[seen], self._lead[seen])
        return found

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
