"""The HTTP API as an edge describes it, with the model that ``alphaedge edge init`` writes."""

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
from alphaedge_docs import docstrings
from alphaedge_docs.markdown import fence, sentence, table

WIDTH: Final = 80
SHORT: Final = 30  # characters of a default that fits into a table


def example_config() -> EdgeConfig:
    """The configuration of an edge as it is written for a new one."""
    text = resources.files("alphaedge.edge").joinpath("example.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edge.toml"
        path.write_text(text.replace("{edge}", "berlin").replace("{region}", "DE"), encoding="utf-8")
        return load(path)


def reference() -> str:
    """Every path, then every refusal and every body."""
    found = describe(example_config(), __version__, token=True)
    made = ["## Paths\n"]
    made += [
        _operation(path, verb.upper(), item[verb])
        for path, item in found["paths"].items()
        for verb in ("get", "post")
        if verb in item
    ]
    refusals = found["components"]["responses"].items()
    made.append("## Refusals\n\nThe body is a [Refusal](#body-refusal) that says what was found and what is allowed.\n")
    made.append(table(("status", "means"), [(status, what["description"]) for status, what in refusals]))
    made.append("## Bodies\n\nObjects in JSON. What has no star may be left out.\n")
    made += [
        _body(name, schema)
        for name, schema in sorted(found["components"]["schemas"].items())
        if schema.get("type") == "object"
    ]
    return "\n".join(made)


def _operation(path: str, verb: str, what: Mapping[str, Any]) -> str:
    anchor = f"path-{verb.lower()}-{path.strip('/')}".replace("/", "-").replace("{", "").replace("}", "")
    made = [f"### `{verb} {path}` {{ #{anchor} }}\n"]
    if "{version}" in path:
        made.append(f"{what['summary']} As without a version; there is one version, {VERSIONS[-1]}.\n")
        return "\n".join(made)
    made.append(f"{what['summary']} {what.get('description', '')}".strip() + "\n")
    if what.get("security"):
        made.append("Wants the token, where `serve.token` is set.\n")
    made += [f"Header `{p['name']}`: {p['description']}\n" for p in what.get("parameters", [])]
    body = what.get("requestBody", {}).get("content", {})
    if body:
        made.append(f"Takes {_contents(body)}.\n")
    examples = [one["value"] for content in body.values() for one in content.get("examples", {}).values()]
    made += [fence(_compact(value), "json") for value in examples]
    refused = [status for status in what["responses"] if status != "200"]
    told = f" Refuses with {', '.join(refused)}." if refused else ""
    made.append(f"Answers {_contents(what['responses']['200']['content'])}.{told}\n")
    return "\n".join(made)


def _contents(body: Mapping[str, Any]) -> str:
    return "; ".join(f"`{kind}`: {_type(content['schema'])}" for kind, content in body.items())


def _compact(value: Any) -> str:
    """JSON with a line for each object of the list that it is about."""
    text = json.dumps(value)
    return text.replace("[{", "[\n  {").replace("}, {", "},\n  {").replace("}]", "}\n]") if len(text) > WIDTH else text


def _body(name: str, schema: Mapping[str, Any]) -> str:
    properties, needed = schema.get("properties", {}), schema.get("required", [])
    text = inspect.cleandoc(schema.get("description", ""))
    said = docstrings.told(text, list(properties))
    made = [f"### {name} {{ #body-{name.lower()} }}\n", docstrings.blocks(docstrings.rest(text, list(properties)))]
    rows = [
        (f"`{field}`" + (" \\*" if field in needed else ""), _type(what), _default(what), sentence(said.get(field, "")))
        for field, what in properties.items()
    ]
    made.append(table(("field", "type", "default", "meaning"), rows))
    return "\n".join(made)


def _default(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema.get("default"))
    return f"`{text}`" if "default" in schema and len(text) < SHORT else ""


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#body-{name.lower()})" if name[0].isupper() else f"{name}, nested or not"
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
