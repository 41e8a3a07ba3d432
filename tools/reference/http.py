"""The HTTP API, from the OpenAPI document of an edge with the configuration that ``alphaedge edge init`` writes."""

import inspect
import json
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from alphaedge import __version__
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.serving.openapi import VERSIONS, describe
from tools.reference import docstrings
from tools.reference.markdown import fence, sentence, table

MAX_LINE: Final = 80  # characters of JSON on one line
MAX_DEFAULT: Final = 30  # characters of a default that is shown


def example_config() -> EdgeConfig:
    """The configuration that ``alphaedge edge init`` writes."""
    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edge.toml"
        path.write_text(text.replace("{edge}", "berlin").replace("{region}", "DE"), encoding="utf-8")
        return load(path)


def section() -> str:
    """Paths, then error responses, then bodies."""
    document = describe(example_config(), __version__, token=True)
    made = ["## Paths\n"]
    made += [
        _operation(path, verb.upper(), item[verb])
        for path, item in document["paths"].items()
        for verb in ("get", "post")
        if verb in item
    ]
    errors = document["components"]["responses"].items()
    made.append("## Errors\n\nThe body of an error names the value and what is allowed.\n")
    made.append(table(("status", "meaning"), [(status, what["description"]) for status, what in errors]))
    made.append("## Bodies\n\nJSON objects. Fields with a star are required.\n")
    made += [
        _body(name, schema)
        for name, schema in sorted(document["components"]["schemas"].items())
        if schema.get("type") == "object"
    ]
    return "\n".join(made)


def _operation(path: str, verb: str, what: Mapping[str, Any]) -> str:
    made = [f"### `{verb} {path}`\n"]
    if "{version}" in path:
        made.append(f"{what['summary']} The same as without a version; the only version is {VERSIONS[-1]}.\n")
        return "\n".join(made)
    made.append(f"{what['summary']} {what.get('description', '')}".strip() + "\n")
    if what.get("security"):
        made.append("Requires the token if `serve.token` is set.\n")
    made += [f"Header `{p['name']}`: {p['description']}\n" for p in what.get("parameters", [])]
    body = what.get("requestBody", {}).get("content", {})
    if body:
        made.append(f"Takes {_contents(body)}.\n")
    examples = [one["value"] for content in body.values() for one in content.get("examples", {}).values()]
    made += [fence(_compact(value), "json") for value in examples]
    refused = [status for status in what["responses"] if status != "200"]
    errors = f" Errors: {', '.join(refused)}." if refused else ""
    made.append(f"Returns {_contents(what['responses']['200']['content'])}.{errors}\n")
    return "\n".join(made)


def _contents(body: Mapping[str, Any]) -> str:
    return "; ".join(f"`{kind}`: {_type(content['schema'])}" for kind, content in body.items())


def _compact(value: Any) -> str:
    """JSON, with one line per object of its lists if it is long."""
    text = json.dumps(value)
    return (
        text.replace("[{", "[\n  {").replace("}, {", "},\n  {").replace("}]", "}\n]") if len(text) > MAX_LINE else text
    )


def _body(name: str, schema: Mapping[str, Any]) -> str:
    properties, needed = schema.get("properties", {}), schema.get("required", [])
    text = inspect.cleandoc(schema.get("description", ""))
    described = docstrings.describe_names(text, list(properties))
    made = [
        f"### {name}\n",
        docstrings.blocks(docstrings.without_names(text, list(properties))),
    ]
    rows = [
        (
            f"`{field}`" + (" \\*" if field in needed else ""),
            _type(what),
            _default(what),
            sentence(described.get(field, "")),
        )
        for field, what in properties.items()
    ]
    made.append(table(("field", "type", "default", "meaning"), rows))
    return "\n".join(made)


def _default(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema.get("default"))
    return f"`{text}`" if "default" in schema and len(text) < MAX_DEFAULT else ""


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name[0].isupper() else f"{name}, nested or not"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for some in ("anyOf", "oneOf"):
        if some in schema:
            if all("title" in one for one in schema[some]):
                return " or ".join(f"{one['title'].lower()}" for one in schema[some])
            return " or ".join(dict.fromkeys(_type(one) for one in schema[some]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object, by name: {_type(inner)}" if isinstance(inner, dict) else "object"
    if schema.get("format") == "binary":
        return str(schema.get("description", "bytes")).rstrip(".")
    return str(schema.get("type", "anything"))
