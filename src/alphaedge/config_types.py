"""What the keys of a configuration allow, in words, from the types of its structs."""

import re
from typing import Any

import msgspec
from msgspec import inspect

from alphaedge.errors import number_range


def allowed_at(kind: type[msgspec.Struct], path: str) -> str:
    """What the struct allows at a path such as ``model.fields[0].size``.

    >>> from typing import Annotated
    >>> class Port(msgspec.Struct):
    ...     number: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    >>> allowed_at(Port, "number")
    'a whole number from 0 to 65535'
    """
    info: inspect.Type = inspect.type_info(kind)
    for step in re.findall(r"[^.\[\]]+|\[\.\.\.\]", path):
        info = _step(info, step)
    return _describe(info)


def _step(info: inspect.Type, step: str) -> inspect.Type:
    """The type of a field, an item or a value."""
    for one in _alternatives(info):
        if isinstance(one, inspect.StructType):
            return next((field.type for field in one.fields if field.name == step), inspect.AnyType())
        if isinstance(one, inspect.ListType | inspect.VarTupleType):
            return one.item_type
        if isinstance(one, inspect.DictType):
            return one.value_type
    return inspect.AnyType()


def _alternatives(info: inspect.Type) -> list[inspect.Type]:
    """The types of a union but None; a single type for any other."""
    if isinstance(info, inspect.Metadata):
        return _alternatives(info.type)
    if isinstance(info, inspect.UnionType):
        return [one for one in info.types if not isinstance(one, inspect.NoneType)]
    return [info]


def _describe(info: inspect.Type) -> str:
    if isinstance(info, inspect.Metadata) and "description" in (info.extra_json_schema or {}):
        return str((info.extra_json_schema or {})["description"])
    return " or ".join(_describe_one(one) for one in _alternatives(info))


def _describe_one(info: Any) -> str:
    match info:
        case inspect.IntType() | inspect.FloatType():
            whole = isinstance(info, inspect.IntType)
            return number_range(low=info.ge, high=info.le, above=info.gt, below=info.lt, whole=whole)
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return "one of " + ", ".join(map(str, info.values))
        case inspect.ListType() | inspect.VarTupleType():
            length = f" with at least {info.min_length}" if info.min_length else ""
            return f"a list{length}, each {_describe(info.item_type)}"
        case inspect.StructType():
            return "a section with " + ", ".join(field.name for field in info.fields)
        case inspect.DictType():
            return "a table of keys and values"
        case inspect.Metadata():
            return _describe(info)
    return "a value"
