"""Hand the learner's parameters over to the server."""

import torch

from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.store.parameters import ParameterWriter


def hand_over(learner: Learner, writer: ParameterWriter) -> int:
    """Make the learner's state the one that predictions are made from; the version's number."""
    home = learner.method.home
    dense = {"share": home.share(learner.lead) if home is not None else torch.ones(1, dtype=learner.model.dtype)}
    tables, changed = {}, {}
    news = [table.news() for table in learner.tables]
    for who, state in learner.states.items():
        dense[f"{who}.dense"] = state.dense[0]
        dense |= {f"{who}.buffer.{name}": buffer[0] for name, buffer in state.buffers.items()}
        for t, (moved, _) in enumerate(news):
            tables[f"{who}.{t}"], changed[f"{who}.{t}"] = state.tables[t].value[0, :-1], moved
    fresh = [(t, a.key, a.row) for t, (_, admitted) in enumerate(news) for a in admitted]

    def every_pair() -> list[tuple[int, int, int]]:
        return [(t, key, row) for t, x in enumerate(learner.tables) for row, key in enumerate(x.numbering.by_row())]

    return writer.write(dense, tables, changed, fresh, every_pair)
