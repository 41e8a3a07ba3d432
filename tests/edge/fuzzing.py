"""Hooks for schemathesis, for what a schema can't express, so that the fuzzing goes deeper.

The number of values has to fit the shape, ids and labels must be equally many, and a header belongs to binary bodies
only. The hooks repair only what schemathesis takes to be valid; what it breaks on purpose stays broken.
"""

import json
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

SIZES = {"user": 1, "item": 1, "x": 2}  # of the fields of processes.CONFIG


def is_valid(case: schemathesis.Case, location: ParameterLocation) -> bool:
    found = case.meta.components.get(location) if case.meta else None
    return found is not None and found.mode is GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: Any) -> None:
    if case.media_type != "application/json":
        return
    if is_valid(case, ParameterLocation.HEADER):
        case.headers.pop("inference-header-content-length", None)
    if not is_valid(case, ParameterLocation.BODY):
        return
    body = json.loads(json.dumps(case.body))
    if "labels" in body:
        count = min(len(body["ids"]), len(body["labels"]))
        case.body = {name: values[:count] for name, values in body.items()}
    if "inputs" in body:
        given = {one["name"]: one for one in body["inputs"]}
        if len(given) == len(SIZES):
            rows = max(body["inputs"][0]["shape"][0] % 4, 1)
            case.body = {**body, "inputs": [fit(one, rows) for one in given.values()]}


def fit(one: dict[str, Any], rows: int) -> dict[str, Any]:
    """An input with as many values as its new shape says: its own, repeated."""
    values = one.get("data") or [0]
    while any(isinstance(v, list) for v in values):
        values = [w for v in values for w in (v if isinstance(v, list) else [v])]
    size = rows * SIZES[one["name"]]
    return {**one, "shape": [rows, SIZES[one["name"]]], "data": ([*values, 0] * size)[:size], "parameters": None}
