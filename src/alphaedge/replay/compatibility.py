"""Whether an edge's model takes the fields of a data set. Pure."""

from collections.abc import Sequence
from typing import Final

from alphaedge.data.stream import Dataset, same_classes
from alphaedge.errors import ModelMismatch
from alphaedge.inference.client import ModelInfo

_DATATYPES: Final = {"id": "BYTES", "category": "BYTES", "code": "INT64", "set": "FP32", "number": "FP32"}
_KINDS: Final = {"BYTES": "an id or a category", "INT64": "a code", "FP32": "numbers or a set"}


def check_compatible(url: str, data: Dataset, model: ModelInfo) -> None:
    """Raise ``ModelMismatch`` if an edge's model takes other fields than the data have, or predicts something else."""
    differences = find_differences(data, model)
    if differences:
        raise ModelMismatch(url, model.name, differences)


def find_differences(data: Dataset, model: ModelInfo) -> list[str]:
    """List the differences between the data and an edge's model. Edges do not report how many ids they take."""
    differences, has = [], model.parameters
    if has.task not in (None, data.task):
        differences.append(f"task: the model has {has.task}; the data have {data.task}")
    elif has.classes and data.classes and not same_classes(has.classes, data.classes):
        takes, sends = (f"{one[0]} for 0 and {one[1]} for 1" for one in (has.classes, data.classes))
        differences.append(f"labels: the model has {takes}; the data have {sends}")
    inputs = {i.name: i for i in model.inputs}
    for field in data.fields:
        datatype, shape = _DATATYPES[field.kind], [-1, field.size] if field.kind in ("set", "number") else [-1]
        sent = _describe(datatype, shape)
        taken = inputs.pop(field.name, None)
        if taken is None:
            differences.append(f"field {field.name}: not in the model; the data have {sent}")
        elif (taken.datatype, taken.shape) != (datatype, shape):
            takes = _describe(taken.datatype, taken.shape)
            differences.append(f"field {field.name}: the model takes {takes}; the data have {sent}")
    return differences + [f"field {name}: not in the data; the model takes it" for name in inputs]


def _describe(datatype: str, shape: Sequence[int]) -> str:
    size = f" of size {shape[1]}" if len(shape) > 1 else ""
    return f"{_KINDS.get(datatype, 'something')}{size} ({datatype})"
