"""The two ends of a prediction: what the learner hands over, and what the server makes of it."""

from collections.abc import Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.model import Model
from alphaedge.edge.inputs.lookup import Inputs, RowLookup, enumerate_keys, find_rows
from alphaedge.edge.serving.traced import TracedPrediction
from alphaedge.edge.store.parameters import ParameterReader, ParameterVersion

COPIES: Final = 2  # of everything in a file


@final
class Predictor:
    """Predictions from the parameters that the learner has handed over last. example: inputs, any, to try it with."""

    def __init__(self, model: Model, reader: ParameterReader, example: Inputs) -> None:
        self._model, self._reader, self._example = model, reader, example
        self._start = [model.initial_table(t) for t in range(len(model.tables))]
        self._functions: dict[tuple[bool, bool], TracedPrediction] = {}
        self._states: dict[int, tuple[Mapping[str, Tensor], list[Tensor]]] = {}  # of the copies in the file
        # Now, since it takes as long as a hundred predictions, and nobody should wait for it.
        self._reader.read(lambda version, _: [self._function(version.tensors, lacking) for lacking in (False, True)])

    def predict(self, inputs: Inputs) -> tuple[Tensor, int]:
        """Predictions [B], and the version of the parameters that they are from."""
        places, keys = enumerate_keys(self._model, inputs)

        def use(version: ParameterVersion, index: Sequence[Mapping[int, int]]) -> tuple[Tensor, int]:
            tensors = version.tensors
            rows = [find_rows(k, index[t].get if t < len(index) else (lambda _: None)) for t, k in enumerate(keys)]
            lacking = any(bool((some < 0).any()) for some in rows)
            wanted = [
                RowLookup.with_new_ids(k, some, start) if lacking else RowLookup(some, None, None)
                for k, some, start in zip(keys, rows, self._start, strict=True)
            ]
            function = self._function(tensors, lacking)
            found = function(self._state(function, tensors), wanted, places)
            return found.clone(), version.number  # a link that does nothing may have given a part of the file

        with torch.inference_mode():
            return self._reader.read(use)

    def _function(self, tensors: Mapping[str, Tensor], lacking: bool) -> TracedPrediction:
        twin = "home.dense" in tensors
        if (twin, lacking) not in self._functions:
            whose = ("mixed", "home") if twin else ("mixed",)
            self._functions[twin, lacking] = TracedPrediction(
                self._model, whose, lacking=lacking, example=self._example
            )
        return self._functions[twin, lacking]

    def _state(self, function: TracedPrediction, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """A copy's parameters as a call takes them: put together once for each copy of a file."""
        kept, state = self._states.get(id(tensors), (None, []))
        if kept is not tensors:
            self._states.pop(id(tensors), None)
            while len(self._states) >= COPIES:
                del self._states[next(iter(self._states))]
            state = function.state(tensors)
            self._states[id(tensors)] = (tensors, state)
        return state
