"""The two ends of a prediction: what the learner hands over, and what the server makes of it."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from alphaedge.core.gradients import Gradients
from alphaedge.core.home import combine
from alphaedge.edge.learner import Inputs, Learner
from alphaedge.edge.lookup import find_rows, named, values
from alphaedge.edge.parameters import Reader, Version, Writer


def hand_over(learner: Learner, writer: Writer) -> int:
    """Make the learner's state the one that predictions are made from; the version's number."""
    fleets = {"mixed": learner.fleet} | ({"home": learner.home} if learner.home is not None else {})
    home = learner.method.home
    dense = {"share": home.share(learner.lead) if home is not None else torch.ones(1, dtype=learner.model.dtype)}
    tables, changed = {}, {}
    news = [table.news() for table in learner.tables]
    for who, fleet in fleets.items():
        dense[f"{who}.dense"] = fleet.dense[0]
        dense |= {f"{who}.buffer.{name}": buffer[0] for name, buffer in fleet.buffers.items()}
        for t, (moved, _) in enumerate(news):
            tables[f"{who}.{t}"], changed[f"{who}.{t}"] = fleet.tables[t].value[0, :-1], moved
    fresh = [(t, a.key, a.row) for t, (_, admitted) in enumerate(news) for a in admitted]

    def every_pair() -> list[tuple[int, int, int]]:
        return [(t, key, row) for t, x in enumerate(learner.tables) for row, key in enumerate(x.numbering.by_row())]

    return writer.write(dense, tables, changed, fresh, every_pair)


@final
class Predictor:
    """Predictions from the parameters that the learner has handed over last."""

    def __init__(self, gradients: Gradients, reader: Reader) -> None:
        self._gradients, self._reader, self._model = gradients, reader, gradients.model
        self._start = [self._model.initial_table(t) for t in range(len(self._model.tables))]
        self._buffers = list(self._model.initial_buffers())

    def predict(self, inputs: Inputs) -> tuple[Tensor, int]:
        """Predictions [B], and the version of the parameters that they are from."""
        places, keys = named(self._model, inputs)

        def outputs(version: Version, who: str, rows: Sequence[Tensor]) -> Tensor:
            tensors = version.tensors
            named_rows = [
                values(keys[t], rows[t], tensors[f"{who}.{t}"], self._start[t]) for t in range(len(self._start))
            ]
            buffers = {name: tensors[f"{who}.buffer.{name}"].unsqueeze(0) for name in self._buffers}
            return self._gradients.outputs(tensors[f"{who}.dense"].unsqueeze(0), named_rows, buffers, places)

        def use(version: Version, index: Sequence[Mapping[int, int]]) -> tuple[Tensor, int]:
            rows = [
                find_rows(keys[t], index[t].get if t < len(index) else (lambda _: None))
                for t in range(len(self._start))
            ]
            mixed = outputs(version, "mixed", rows)
            if "home.dense" in version.tensors:
                mixed = combine(version.tensors["share"], mixed, outputs(version, "home", rows))
            return self._model.loss.link(mixed[0]).clone(), version.number

        return self._reader.read(use)
