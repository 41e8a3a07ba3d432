"""The two ends of a prediction: what the learner hands over, and what the server makes of it."""

from collections.abc import Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.gradients import Gradients
from alphaedge.core.home import combine
from alphaedge.edge.bound import Bound
from alphaedge.edge.learner import Inputs, Learner
from alphaedge.edge.log import warn
from alphaedge.edge.lookup import Wanted, find_rows, placed
from alphaedge.edge.parameters import Reader, Version, Writer

COPIES: Final = 2  # of everything in a file


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
        self._bound: Bound | None = None
        self._checked = False
        self._views: dict[int, tuple[Mapping[str, Tensor], dict[str, list[Tensor]]]] = {}  # of the copies in the file

    def predict(self, inputs: Inputs) -> tuple[Tensor, int]:
        """Predictions [B], and the version of the parameters that they are from."""
        places, keys = placed(self._model, inputs)

        def use(version: Version, index: Sequence[Mapping[int, int]]) -> tuple[Tensor, int]:
            wanted = [
                Wanted.of(keys[t], find_rows(keys[t], index[t].get if t < len(index) else (lambda _: None)), start)
                for t, start in enumerate(self._start)
            ]
            mixed = self._outputs(version, "mixed", wanted, places)
            if "home.dense" in version.tensors:
                home = self._outputs(version, "home", wanted, places)
                mixed = combine(version.tensors["share"], mixed.unsqueeze(0), home.unsqueeze(0))[0]
            return self._model.loss.link(mixed).clone(), version.number

        with torch.inference_mode():
            return self._reader.read(use)

    def _outputs(self, version: Version, who: str, wanted: Sequence[Wanted], inputs: Sequence[Tensor]) -> Tensor:
        tensors = version.tensors
        values_ = [one.values(tensors[f"{who}.{t}"]) for t, one in enumerate(wanted)]
        buffers = {name: tensors[f"{who}.buffer.{name}"] for name in self._buffers}
        if not self._checked:
            self._checked, self._bound = True, self._try(tensors[f"{who}.dense"], values_, buffers, inputs)
        if self._bound is None:
            return self._called(tensors[f"{who}.dense"], values_, buffers, inputs)
        return self._bound.outputs(self._view(tensors, who), values_, buffers, inputs)

    def _called(
        self, dense: Tensor, rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Tensor:
        """The plain way, which takes any module."""
        stacked = {name: b.unsqueeze(0) for name, b in buffers.items()}
        given = ([r.unsqueeze(0) for r in rows], stacked, [x.unsqueeze(0) for x in inputs])
        return self._gradients.outputs(dense.unsqueeze(0), *given)[0]

    def _try(
        self, dense: Tensor, rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Bound | None:
        """The fast way, if it gives the same for this module."""
        expected = self._called(dense, rows, buffers, inputs)
        try:
            bound = Bound(self._model)
            found = bound.outputs(bound.views(dense), rows, buffers, inputs)
        except Exception as error:  # whatever a user's module does not bear: it has the plain way
            warn("predictions are made the slow way", reason=error)
            return None
        if torch.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True):
            return bound
        warn("predictions are made the slow way", reason="the module gives something else when it is bound")
        return None

    def _view(self, tensors: Mapping[str, Tensor], who: str) -> list[Tensor]:
        """The dense part of a copy in the shapes of the parameters: made once for each copy of a file."""
        kept, views = self._views.get(id(tensors), (None, {}))
        if kept is not tensors:
            self._views = {i: of for i, of in self._views.items() if i != id(tensors)}
            while len(self._views) >= COPIES:
                del self._views[next(iter(self._views))]
            views = {}
            self._views[id(tensors)] = (tensors, views)
        if who not in views:
            assert self._bound is not None
            views[who] = self._bound.views(tensors[f"{who}.dense"])
        return views[who]
