"""Hand the learner's parameters over to the server."""

import torch

from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.store.parameters import ParameterWriter


def hand_over(learner: Learner, writer: ParameterWriter) -> int:
    """Make the learner's parameters the ones that the server predicts from; the number of their version."""
    home = learner.method.home
    dense = {"share": home.share(learner.evidence) if home is not None else torch.ones(1, dtype=learner.model.dtype)}
    tables, changed = {}, {}
    changes = [table.take_changes() for table in learner.tables]
    for who, state in learner.states.items():
        dense[f"{who}.dense"] = state.dense[0]
        dense |= {f"{who}.buffer.{name}": buffer[0] for name, buffer in state.buffers.items()}
        for t, (moved, _) in enumerate(changes):
            tables[f"{who}.{t}"], changed[f"{who}.{t}"] = state.tables[t].value[0, :-1], moved
    fresh = [(t, a.key, a.row) for t, (_, admitted) in enumerate(changes) for a in admitted]

    def all_entries() -> list[tuple[int, int, int]]:
        keys = [table.numbering.keys_by_row() for table in learner.tables]
        return [(t, key, row) for t, some in enumerate(keys) for row, key in enumerate(some)]

    return writer.write(dense, tables, changed, fresh, all_entries)
