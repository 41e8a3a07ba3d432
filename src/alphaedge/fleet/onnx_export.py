"""A snapshot as an ONNX model, for other servers: inputs by the names of columns, text for ids and categories.

Values become rows by a ``LabelEncoder`` each, in front of what torch exports. Values without a row get the last one.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from alphaedge.core.fields import KEYED, WHOLE
from alphaedge.edge.config import FieldConfig
from alphaedge.errors import InvalidValue, ModelError
from alphaedge.fleet.prediction_module import PredictionModule
from alphaedge.fleet.predictor import Predictor
from alphaedge.fleet.snapshot import Snapshot

OUTPUT: Final = "prediction"
PREFIX: Final = "alphaedge/"
ROWS: Final = "examples"  # the first dimension of every input
LABEL_ENCODER_VERSION: Final = 2  # of the operators for machine learning: the first with text in and numbers out
TOLERANCE: Final = 1e-5  # of a prediction, or of its size if that is more
TRIED: Final = 50  # values of each field


def encode_onnx(snapshot: Snapshot) -> bytes:
    """The model as the bytes of an ONNX file. Refuses a model that does not predict the same there."""
    if snapshot.values is None and snapshot.model.tables:
        allowed = "a results folder: a live edge knows its ids by their keys only, not by the values callers would send"
        raise InvalidValue("onnx", f"the folder of a live edge, {snapshot.edge}", allowed)
    if OUTPUT in snapshot.model.fields:
        raise InvalidValue("onnx: field", OUTPUT, "another name: the output of the model is called that")
    made = _with_columns(_trace(snapshot), snapshot)
    onnx.checker.check_model(made, full_check=True)
    data: bytes = made.SerializeToString()
    _check(data, snapshot)
    return data


def _trace(snapshot: Snapshot) -> onnx.ModelProto:
    """What torch exports: inputs are rows, codes and numbers in the order of the model's fields."""
    fields = {field.name: field for field in snapshot.config.fields}
    names = [f"x{f}" for f in range(len(snapshot.model.fields))]
    examples = []
    for name in snapshot.model.fields:
        whole = fields[name].kind in WHOLE
        examples.append(torch.zeros(2, dtype=torch.long) if whole else torch.zeros(2, fields[name].size))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        # The exporter by tracing takes a second and needs no further package; its successor takes half a minute.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            PredictionModule(snapshot),
            tuple(examples),
            file := Path(folder) / "model.onnx",
            dynamo=False,
            input_names=names,
            output_names=[OUTPUT],
            dynamic_axes={name: {0: ROWS} for name in (*names, OUTPUT)},
        )
        # Names of its own for everything inside: columns may have any name.
        return onnx.compose.add_prefix(onnx.load_model(file), PREFIX)


def _with_columns(made: onnx.ModelProto, snapshot: Snapshot) -> onnx.ModelProto:
    """Put the columns of the data in the place of rows and of numbers side by side."""
    fields = {field.name: field for field in snapshot.config.fields}
    taken = {value.name for value in made.graph.input}
    nodes, inputs = [], []
    for f, name in enumerate(snapshot.model.fields):
        field, place = fields[name], f"{PREFIX}x{f}"
        wide = field.kind not in WHOLE and field.size > 1
        inputs.append(helper.make_tensor_value_info(name, _type(field), [ROWS, field.size] if wide else [ROWS]))
        if place not in taken:  # the model does not use it
            continue
        if field.kind in KEYED:
            nodes.append(_rows_of(name, place, _values(snapshot, f)))
        elif field.kind in WHOLE or wide:
            nodes.append(helper.make_node("Identity", [name], [place]))
        else:
            axis = f"{place}.axis"
            made.graph.initializer.append(helper.make_tensor(axis, TensorProto.INT64, [1], [1]))
            nodes.append(helper.make_node("Unsqueeze", [name, axis], [place]))
    nodes += [*made.graph.node, helper.make_node("Identity", [f"{PREFIX}{OUTPUT}"], [OUTPUT])]
    del made.graph.input[:], made.graph.node[:], made.graph.output[:]
    made.graph.input.extend(inputs)
    made.graph.node.extend(nodes)
    made.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [ROWS]))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", LABEL_ENCODER_VERSION))
    made.doc_string = f"AlphaEdge, {snapshot.edge}: see description.json"
    return made


def _values(snapshot: Snapshot, field: int) -> list[str]:
    """The values of the rows of an id or category field."""
    for table in snapshot.model.tables:
        if field in table.fields and snapshot.values is not None:
            return list(snapshot.values[table.name])
    raise InvalidValue("onnx: field", snapshot.model.fields[field], "ids and categories with an id table")


def _rows_of(column: str, place: str, values: list[str]) -> onnx.NodeProto:
    """Values to rows. A table without rows has the last one alone; some key there must be."""
    return helper.make_node(
        "LabelEncoder",
        [column],
        [place],
        domain="ai.onnx.ml",
        keys_strings=values or [""],
        values_int64s=list(range(len(values))) or [0],
        default_int64=len(values),
    )


def _type(field: FieldConfig) -> int:
    if field.kind in KEYED:
        return TensorProto.STRING
    return TensorProto.INT64 if field.kind in WHOLE else TensorProto.FLOAT


def run(data: bytes, columns: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Predict with the bytes of an ONNX file."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found: NDArray[np.float32] = session.run([OUTPUT], columns)[0]
    return found


def _check(data: bytes, snapshot: Snapshot) -> None:
    """Predict a few examples both ways."""
    columns = {field.name: _some(field, snapshot) for field in snapshot.config.fields}
    expected, found = Predictor(snapshot).predict(columns), run(data, columns)
    if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        gap = float(np.abs(found - expected).max())
        raise ModelError(f"onnx: predictions differ by up to {gap:.3g}, allowed {TOLERANCE:g}; nothing was written")


def _some(field: FieldConfig, snapshot: Snapshot) -> NDArray[Any]:
    """Values of one field to try: known and unknown ones, large and small numbers, some missing."""
    if field.kind in KEYED:
        known = _values(snapshot, snapshot.model.fields.index(field.name))[: TRIED - 1]
        return np.array([(*known, "a value that nobody has met")[i % (len(known) + 1)] for i in range(TRIED)], object)
    if field.kind in WHOLE:
        return np.arange(TRIED) % field.size
    if field.kind == "set":
        members: NDArray[np.float32] = (np.arange(TRIED * field.size) % 2).astype(np.float32)
        return members.reshape(TRIED, -1) if field.size > 1 else members
    place = np.arange(TRIED * field.size)
    numbers: NDArray[np.float32] = (np.cos(place) * 10.0 ** (place % 4)).astype(np.float32)
    if field.missing:
        numbers[::7] = np.nan
    return numbers.reshape(TRIED, -1) if field.size > 1 else numbers
