"""The messages between edges: the fields of structs, as the code describes them."""

import importlib
import typing
from collections.abc import Mapping
from typing import Final

import msgspec

from tools.reference import docstrings
from tools.reference.markdown import sentence, table, type_name

# Descriptions that the code does not have next to the field.
FIELDS: Final[Mapping[str, str]] = {
    "_RequestMessage.schema": "schema of the asking edge; the other edge refuses a schema that is not its own",
    "_RequestMessage.holds": "number of the publication that the asking edge holds; 0 for none",
    "_EverythingMessage.schema": "schema of the asking edge; the other edge refuses a schema that is not its own",
    "AnswerHeader.schema": "schema of the answering edge",
    "AnswerHeader.number": "number of the publication",
    "AnswerHeader.records": "how many examples the model has learned from",
}


def section(path: str) -> str:
    """A table of the fields of the struct at ``package.module.Name``, in their order."""
    module, _, name = path.rpartition(".")
    struct = getattr(importlib.import_module(module), name)
    assert issubclass(struct, msgspec.Struct)
    described, hints = docstrings.describe_fields(struct), typing.get_type_hints(struct, include_extras=True)
    described |= {key.partition(".")[2]: text for key, text in FIELDS.items() if key.startswith(f"{name}.")}
    config = struct.__struct_config__
    form = "a list of its fields, in this order" if config.array_like else "a map from field names to values"
    unknown = "refused" if config.forbid_unknown_fields else "ignored"
    names = [field.name for field in msgspec.structs.fields(struct)]
    missing = [f"{path}.{field}" for field in names if field not in described]
    if missing:
        raise KeyError(f"described neither in a docstring, nor in {__name__}: {missing}")
    rows = [(f"`{field}`", type_name(hints[field]), sentence(described[field])) for field in names]
    return f"Encoded as {form}. Unknown fields are {unknown}.\n\n" + table(("field", "type", "meaning"), rows)
