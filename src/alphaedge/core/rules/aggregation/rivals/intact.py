"""Which peers' models are intact: one number that is not finite would spread through any mean, even at a share of 0."""

from dataclasses import replace

import torch

from alphaedge.core.aggregation import Mixing


def among_intact(mixing: Mixing) -> Mixing:
    """The same mix without the peers whose models hold a number that is not finite."""
    held = mixing.held
    used = held.index.flatten()  # the pool of a large fleet has many more models
    total = held.dense.index_select(0, used).sum(1)
    for table in held.tables:
        total = total + table.sum((1, 2))[used]
    found = used[~torch.isfinite(total)]
    if not len(found):
        return mixing
    broken = torch.zeros(len(held.dense), dtype=torch.bool, device=used.device).index_fill_(0, found, True)
    left = replace(
        held,
        dense=held.dense.masked_fill(broken.view(-1, 1), 0),
        tables=tuple(table.masked_fill(broken.view(-1, 1, 1), 0) for table in held.tables),
        present=held.present & ~broken[held.index],
    )
    return replace(mixing, held=left)
