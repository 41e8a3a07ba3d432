"""Predict from Python, without a server: what an edge has learned, asked with raw values."""

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.core.fields import Field
from alphaedge.data.stream import Task
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.lookup import find_rows
from alphaedge.fleet.prediction_module import PredictionModule
from alphaedge.fleet.raw_inputs import read_inputs
from alphaedge.fleet.snapshot import Snapshot
from alphaedge.fleet.sources import read_snapshot

EXAMPLES_AT_ONCE: Final = 10_000  # of a large frame, to bound the memory


def load(
    path: str | os.PathLike[str],
    edge: str | None = None,
    *,
    model: str | None = None,
    secret: str | os.PathLike[str] | None = None,
) -> "Predictor":
    """Load what an edge has learned, to predict with it.

    path: a results folder of ``alphaedge simulate --out``, a folder of ``alphaedge fleet init``, the folder of one edge
        with its ``edge.toml``, or a folder of ``alphaedge export``.
    edge: the region, where the folder has several.
    model: import path of your own model, ``package.module:factory``, if a simulation or an export was made with one.
    secret: file with the fleet's secret, for an export of a live edge, which knows ids by their keys only.
    """
    return Predictor(read_snapshot(Path(path), edge, model=model, secret=None if secret is None else Path(secret)))


@final
class Predictor:
    """Predicts as an edge would: by its mixed model and its home model, blended. ``alphaedge.load`` makes one.

    edge: the region. task: ``classify`` or ``regress``. fields: the columns that it takes.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._module = snapshot, PredictionModule(snapshot)
        self._features = Features(snapshot.config.fields, snapshot.secret)
        self._rows = {name: {key: row for row, key in enumerate(keys)} for name, keys in snapshot.keys.items()}
        self.edge: str = snapshot.edge
        self.task: Task = snapshot.config.task
        self.fields: tuple[Field, ...] = tuple(Field(f.name, f.kind, f.size, f.missing) for f in snapshot.config.fields)

    def predict(self, data: object) -> NDArray[np.float32]:
        """Predict examples, [N]: the probability of the label 1, or the label as a number.

        data: a data frame of polars, pandas or pyarrow, or a mapping from names to sequences, with a column for each
            field; other columns are ignored. Ids and categories are raw values, text or whole numbers, and numbers may
            be missing where the field allows it. Values that the edge has not met predict like a new id.
        """
        inputs = read_inputs(data, self._snapshot.config.fields)
        count = len(next(iter(inputs.values())))
        outputs = [
            self._predict({name: values[at : at + EXAMPLES_AT_ONCE] for name, values in inputs.items()})
            for at in range(0, count, EXAMPLES_AT_ONCE)
        ]
        found: NDArray[np.float32] = torch.cat(outputs).numpy() if outputs else np.empty(0, np.float32)
        return found

    def _predict(self, inputs: Mapping[str, NDArray[Any]]) -> Tensor:
        model = self._snapshot.model
        tensors = self._features.to_tensors(self._features.encode(inputs), model.fields)
        for layout in model.tables:
            known = self._rows[layout.name]
            for field in layout.fields:
                rows = find_rows(tensors[field], known.get)
                tensors[field] = torch.where(rows < 0, len(known), rows)
        with torch.no_grad():
            outputs: Tensor = self._module(*tensors)
        return outputs.float()

    def __repr__(self) -> str:
        return f"Predictor(edge={self.edge!r}, task={self.task!r}, fields={[f.name for f in self.fields]})"

    def _repr_html_(self) -> str:
        known = {
            self._snapshot.model.fields[field]: len(self._rows[layout.name])
            for layout in self._snapshot.model.tables
            for field in layout.fields
        }
        rows = "".join(
            f"<tr><td>{escape(f.name)}</td><td>{f.kind}</td><td>{_about(f, known.get(f.name))}</td></tr>"
            for f in self.fields
        )
        head = "<tr><th>field</th><th>kind</th><th></th></tr>"
        return f"<p>Predictor of <b>{escape(self.edge)}</b>: {self.task}</p><table>{head}{rows}</table>"


def _about(field: Field, known: int | None) -> str:
    if known is not None:
        return f"{known:,} values known"
    text = f"{field.size:,} {'values' if field.kind in ('code', 'set') else 'numbers'}" if field.size > 1 else ""
    return f"{text}{', ' if text else ''}may be missing" if field.missing else text
