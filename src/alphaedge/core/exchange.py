"""What one edge pulls from another: the dense part, and the rows of ids that both know and that changed.

An edge **publishes** its model at an aggregation. In the published id tables only rows that it has trained since its
last publication change; a row that only its own mixing has moved stays as published. So a peer that holds an older
publication needs only the changed rows to hold exactly this one.

In how many bytes numbers are published is in ``core.compression``. Keys, headers and what a live edge deflates on the
way are not counted here.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor


@final
class Traffic(NamedTuple):
    """Bytes of parameters that a pull takes, by what it leaves out; each a tensor [g, P] or a total."""

    full: Tensor  # the dense part and every row that the sender holds
    common: Tensor  # ... and the rows of ids that both know
    changed: Tensor  # ... of those, what the receiver does not hold already

    def total(self) -> tuple[int, int, int]:
        """The three sums."""
        return int(self.full.sum()), int(self.common.sum()), int(self.changed.sum())


def traffic(
    *,
    dense_bytes: int,
    row_bytes: Sequence[int],
    held_rows: Sequence[Tensor],
    versions: Sequence[Tensor],
    known_since: Sequence[Tensor],
    publication: Tensor,
    pulled_at: Tensor,
    present: Tensor,
    wanted: Sequence[Tensor] = (),
) -> Traffic:
    """Bytes of one pull by g edges from P peers each.

    held_rows[t] [g, P]: how many rows the sender has trained, whether or not the receiver has a place for them.
    versions[t] [g, P, rows]: the publication in which a sender's row last changed, 0 if it has never trained it.
    known_since[t] [g, rows]: the receiver's aggregation from which on it has known an id, -1 if it does not.
    publication, pulled_at [g, P]: what the receiver holds of the sender, and since which of its aggregations.
    wanted[t] [g, rows]: rows that the receiver does not know yet but asks for besides (cold start).
    """
    full = torch.full(present.shape, dense_bytes, dtype=torch.long, device=present.device)
    common, changed = full.clone(), full.clone()
    for t, (width, rows, version, since) in enumerate(zip(row_bytes, held_rows, versions, known_since, strict=True)):
        held = version > 0
        both = held & (since >= 0).unsqueeze(1)
        new = (version > publication.unsqueeze(2)) | (since.unsqueeze(1) > pulled_at.unsqueeze(2))
        full += rows * width
        common += both.sum(2) * width
        changed += (both & new).sum(2) * width
        if wanted:
            asked = (held & (wanted[t] & (since < 0)).unsqueeze(1)).sum(2) * width
            common += asked
            changed += asked
    return Traffic(full * present, common * present, changed * present)
