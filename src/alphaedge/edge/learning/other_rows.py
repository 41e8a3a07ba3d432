"""Rows of a peer that belong to ids which have no row here yet: a cold start looks here, and tells nobody of an id."""

from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor


@final
class OtherRows(NamedTuple):
    """Rows [C, ...] by their keys [C], each once."""

    keys: Tensor
    rows: Tensor

    @classmethod
    def none(cls, columns: int, dtype: torch.dtype) -> "OtherRows":
        """Without a row."""
        return cls(torch.empty(0, dtype=torch.long), torch.empty(0, columns, dtype=dtype))

    def with_news(self, keys: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """These rows and newer ones, which count where a key has both."""
        old = torch.from_numpy(~np.isin(self.keys.numpy(), keys.numpy()))
        return torch.cat([self.keys[old], keys]), torch.cat([self.rows[old], rows.to(self.rows.dtype)])

    def find(self, keys: Tensor) -> "OtherRows":
        """The rows of some keys, as far as there are."""
        mine = torch.from_numpy(np.isin(self.keys.numpy(), keys.numpy()))
        return OtherRows(self.keys[mine], self.rows[mine])

    def cut(self, most: int) -> "OtherRows":
        """At most so many, the newest: a peer can't fill this edge's memory."""
        return OtherRows(self.keys[-most:], self.rows[-most:])
