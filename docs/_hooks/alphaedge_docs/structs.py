"""What travels between edges: the fields of structs, with what the code says of them."""

import importlib
import typing
from collections.abc import Mapping
from typing import Final

import msgspec

from alphaedge_docs import docstrings
from alphaedge_docs.markdown import kind, sentence, table

# What the code does not say beside the field.
SAID: Final[Mapping[str, str]] = {
    "_Ask.schema": "of the edge that asks; another than that of the edge that is asked is refused",
    "_Ask.holds": "the publication that it holds already; 0 for none",
    "_About.schema": "of the edge that answers",
    "_About.number": "of the publication",
    "_About.records": "outcomes that the model has learned from, which a mix by records goes by",
    "About.edge": "its name, which must be that in the certificate",
    "About.region": "where it is, which must be what the certificate says",
    "About.publication": "the newest that can be pulled",
    "Record.about": "what the edge says of itself, encoded",
    "Record.signature": "of the edge, over those very bytes: ECDSA with SHA-256",
    "Record.certificate": "the edge's certificate, in DER",
    "Digest.heard": "by edge: the version of its record, its last heartbeat in milliseconds, and its signature",
    "News.records": "those that the other side lacks",
    "News.digest": "what this side has",
}


def reference(path: str) -> str:
    """The fields of the struct at ``package.module.Name``, in their order."""
    module, _, name = path.rpartition(".")
    struct = getattr(importlib.import_module(module), name)
    assert issubclass(struct, msgspec.Struct)
    said, hints = docstrings.fields(struct), typing.get_type_hints(struct, include_extras=True)
    config = struct.__struct_config__
    form = "a list of its fields, in this order" if config.array_like else "a map, by the names of its fields"
    said |= {key.partition(".")[2]: text for key, text in SAID.items() if key.startswith(f"{name}.")}
    rows = [(f"`{f.name}`", kind(hints[f.name]), sentence(said[f.name])) for f in msgspec.structs.fields(struct)]
    closed = " Unknown fields are refused." if config.forbid_unknown_fields else " Unknown fields are let pass."
    return f"Written as {form}.{closed}\n\n" + table(("field", "type", "meaning"), rows)
