"""Whether an edge's model takes the fields of a data set. Pure."""

from collections.abc import Sequence
from typing import Final

from alphaedge.core.fields import Field
from alphaedge.data.stream import Task
from alphaedge.errors import ModelMismatch
from alphaedge.inference.client import ModelInfo

_DATATYPES: Final = {"id": "BYTES", "category": "BYTES", "code": "INT64", "set": "FP32", "number": "FP32"}
_KINDS: Final = {"BYTES": "an id or a category", "INT64": "a code", "FP32": "numbers or a set"}


def check_compatible(url: str, fields: Sequence[Field], task: Task, model: ModelInfo) -> None:
    """Raise ``ModelMismatch`` if an edge's model takes other fields than the data have, or has another task."""
    differences = find_differences(fields, task, model)
    if differences:
        raise ModelMismatch(url, model.name, differences)


def find_differences(fields: Sequence[Field], task: Task, model: ModelInfo) -> list[str]:
    """List the differences between the data and an edge's model. Edges do not report how many ids they take."""
    differences = [] if model.task in (None, task) else [f"task: the model has {model.task}; the data have {task}"]
    inputs = {i.name: i for i in model.inputs}
    for field in fields:
        datatype, shape = _DATATYPES[field.kind], [-1, field.size] if field.kind in ("set", "number") else [-1]
        has = _describe(datatype, shape)
        taken = inputs.pop(field.name, None)
        if taken is None:
            differences.append(f"field {field.name}: not in the model; the data have {has}")
        elif (taken.datatype, taken.shape) != (datatype, shape):
            takes = _describe(taken.datatype, taken.shape)
            differences.append(f"field {field.name}: the model takes {takes}; the data have {has}")
    return differences + [f"field {name}: not in the data; the model takes it" for name in inputs]


def _describe(datatype: str, shape: Sequence[int]) -> str:
    size = f" of size {shape[1]}" if len(shape) > 1 else ""
    return f"{_KINDS.get(datatype, 'something')}{size} ({datatype})"
