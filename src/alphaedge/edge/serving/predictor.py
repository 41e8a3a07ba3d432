"""Predictions from the parameters that the learner has handed over."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.model import Model
from alphaedge.edge.inputs.lookup import Inputs, RowLookup, enumerate_keys, find_rows
from alphaedge.edge.serving.traced_prediction import TracedPrediction
from alphaedge.edge.store.parameters import ParameterReader, ParameterVersion

COPIES: Final = 2  # of the parameters in a file


class Prediction(NamedTuple):
    """Outputs [B] of examples. alone: those of the home model alone, if there is one. version: of the parameters."""

    outputs: Tensor
    alone: Tensor | None
    version: int


@final
class Predictor:
    """Predicts from the newest parameters. sample: any inputs, to try the model with."""

    def __init__(self, model: Model, reader: ParameterReader, sample: Inputs) -> None:
        self._model, self._reader, self._sample = model, reader, sample
        self._start = [model.initial_table(t) for t in range(len(model.tables))]
        self._functions: dict[tuple[bool, bool], TracedPrediction] = {}
        self._states: dict[int, tuple[Mapping[str, Tensor], list[Tensor]]] = {}  # of the copies in the file
        # Trace now, which takes as long as a hundred predictions, rather than during a caller's request.
        self._reader.read(lambda version, _: [self._function(version.tensors, new_ids) for new_ids in (False, True)])

    def check(self) -> None:
        """Raise ``ParametersError`` unless there are parameters to predict from now."""
        self._reader.read(lambda _version, _rows: None)

    def predict(self, inputs: Inputs) -> Prediction:
        """Predict examples."""
        places, keys = enumerate_keys(self._model, inputs)

        def use(version: ParameterVersion, index: Sequence[Mapping[int, int]]) -> Prediction:
            tensors = version.tensors
            rows = [find_rows(k, index[t].get if t < len(index) else (lambda _: None)) for t, k in enumerate(keys)]
            new_ids = any(bool((some < 0).any()) for some in rows)
            lookups = [
                RowLookup.with_new_ids(k, some, start) if new_ids else RowLookup(some, None, None)
                for k, some, start in zip(keys, rows, self._start, strict=True)
            ]
            function = self._function(tensors, new_ids)
            outputs, *alone = function(self._state(function, tensors), lookups, places).clone()  # a view of the file?
            return Prediction(outputs, alone[0] if alone else None, version.number)

        with torch.inference_mode():
            return self._reader.read(use)

    def _function(self, tensors: Mapping[str, Tensor], new_ids: bool) -> TracedPrediction:
        home = "home.dense" in tensors
        if (home, new_ids) not in self._functions:
            models = ("mixed", "home") if home else ("mixed",)
            self._functions[home, new_ids] = TracedPrediction(self._model, models, new_ids=new_ids, sample=self._sample)
        return self._functions[home, new_ids]

    def _state(self, function: TracedPrediction, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """The parameters of a copy as the function takes them, put together once for each copy in a file."""
        cached, state = self._states.get(id(tensors), (None, []))
        if cached is not tensors:
            self._states.pop(id(tensors), None)
            while len(self._states) >= COPIES:
                del self._states[next(iter(self._states))]
            state = function.state(tensors)
            self._states[id(tensors)] = (tensors, state)
        return state
