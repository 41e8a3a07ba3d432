"""Whether an edge's model takes what a data set has. Pure."""

from collections.abc import Sequence
from typing import Final

from alphaedge.core.fields import Field
from alphaedge.data.stream import Task
from alphaedge.errors import ModelMismatch
from alphaedge.inference.client import ModelInfo

_TYPES: Final = {"id": "BYTES", "category": "INT64", "set": "FP32", "number": "FP32"}
_KINDS: Final = {"BYTES": "an id", "INT64": "a category", "FP32": "numbers or a set"}


def check_fit(url: str, fields: Sequence[Field], task: Task, found: ModelInfo) -> None:
    """An error if an edge's model, as it is described, takes other fields or has another task."""
    wrong = differences(fields, task, found)
    if wrong:
        raise ModelMismatch(url, found.name, wrong)


def differences(fields: Sequence[Field], task: Task, found: ModelInfo) -> list[str]:
    """All that differs between the data and an edge's model. How many ids or categories it takes nobody is told."""
    wrong = [] if found.task in (None, task) else [f"task: found {found.task}; the data are to {task}"]
    there = {i.name: i for i in found.inputs}
    for field in fields:
        kind, shape = _TYPES[field.kind], [-1, field.size] if field.kind in ("set", "number") else [-1]
        one = there.pop(field.name, None)
        if one is None:
            wrong.append(f"field {field.name}: not in the model; the data have {_described(kind, shape)}")
        elif (one.datatype, one.shape) != (kind, shape):
            has, wants = _described(kind, shape), _described(one.datatype, one.shape)
            wrong.append(f"field {field.name}: the model takes {wants}; the data have {has}")
    return wrong + [f"field {name}: not in the data; the model takes it" for name in there]


def _described(datatype: str, shape: Sequence[int]) -> str:
    size = f" of size {shape[1]}" if len(shape) > 1 else ""
    return f"{_KINDS.get(datatype, 'something')}{size} ({datatype})"
