"""The public API of one edge in OpenAPI 3.1: what is sent, what comes back, and what a refusal looks like."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from alphaedge.edge.config import EdgeConfig, FieldConfig
from alphaedge.inference.server_codec import MAX_VALUES, InferenceRequest, InferenceResponse, RequestInput
from alphaedge.inference.tensors import DATATYPES, JSON_LENGTH_HEADER
from alphaedge.monitoring.frames import Fleet

PLATFORM: Final = "alphaedge"
PATH: Final = "/v2/openapi.json"
VERSIONS: Final = ("1",)  # of the model; learning does not make a new one
OUTPUTS: Final = {"prediction": "FP32", "prediction_id": "INT64"}
INPUT_TYPES: Final = {"id": "BYTES", "category": "INT64", "set": "FP32", "number": "FP32"}
_WHOLE: Final = tuple(name for name in DATATYPES if "INT" in name)
ACCEPTED: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("BYTES", *_WHOLE), "category": ("BOOL", *_WHOLE), "set": tuple(DATATYPES), "number": tuple(DATATYPES),
}  # fmt: skip
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was refused: which field, what was found, what is allowed."""

    error: str


class Live(msgspec.Struct, frozen=True):
    """The server answers."""

    live: Literal[True] = True


class Ready(msgspec.Struct, frozen=True):
    """A prediction could be made, and written down, now."""

    name: str
    ready: Literal[True] = True


class ServerMetadata(msgspec.Struct, frozen=True):
    """The server, and what it can do beyond the protocol."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(msgspec.Struct, frozen=True):
    """An input or output; -1 in a shape is the number of examples."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct, frozen=True):
    """The model, its inputs and its outputs."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


PredictionId = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 2**63 - 1})]


class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of predictions: their ids, and one label for each."""

    ids: Annotated[list[PredictionId], Meta(extra_json_schema={"minItems": 1})]
    labels: Annotated[list[float], Meta(extra_json_schema={"minItems": 1})]


class FeedbackCounts(msgspec.Struct, frozen=True):
    """How many outcomes were accepted, and how many not: known already, too late, or of no prediction made here."""

    accepted: int
    known: int
    expired: int
    unknown: int


def metadata(config: EdgeConfig) -> ModelMetadata:
    """The model as the protocol describes one."""
    inputs = [
        TensorMetadata(f.name, INPUT_TYPES[f.kind], [-1, f.size] if f.kind in ("set", "number") else [-1])
        for f in config.model.fields
    ]
    outputs = [TensorMetadata(name, kind, [-1]) for name, kind in OUTPUTS.items()]
    return ModelMetadata(config.model.name, list(VERSIONS), PLATFORM, inputs, outputs)


def describe(config: EdgeConfig, version: str, *, token: bool) -> dict[str, Any]:
    """The whole description. version: of the server. token: whether callers must show one."""
    model, versioned = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
    paths: dict[str, Any] = {
        PATH: {"get": _get("description", "This description.", {"type": "object"})},
        "/v2": {"get": _get("server", "The server and its extensions.", _ref(ServerMetadata))},
        "/v2/health/live": {"get": _get("live", "Whether the server answers.", _ref(Live))},
        "/v2/health/ready": {"get": _get("ready", "Whether it can predict.", _ref(Ready), 503)},
    }
    fleet = _get("fleet", "The fleet as this edge sees it, until now.", _ref(Fleet), *([401] if token else []))
    paths["/fleet"] = {"get": fleet | ({"security": [{"token": []}]} if token else {})}
    for path, tail in ((model, ""), (versioned, "OfVersion")):
        known = {"parameters": _path_parameters(config, versioned=path is versioned)}
        about = _get(f"model{tail}", "The model, its inputs and its outputs.", _ref(ModelMetadata), 404)
        ready = _get(f"modelReady{tail}", "Whether the model can predict.", _ref(Ready), 404, 503)
        paths[path] = {**known, "get": about}
        paths[f"{path}/ready"] = {**known, "get": ready}
        paths[f"{path}/infer"] = {**known, "post": _infer(config, f"infer{tail}", token=token)}
    known = {"parameters": _path_parameters(config, versioned=False)}
    paths[f"{model}/feedback"] = {**known, "post": _feedback(token=token)}
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": f"AlphaEdge: {config.model.name}",
            "version": version,
            "description": "Predictions by the Open Inference Protocol v2, and feedback on them, which is learned.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _schemas(config), "responses": _refusals(config)},
    }
    if token:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return described


def _ref(body: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{body.__name__}"}


def _get(name: str, summary: str, schema: dict[str, Any], *statuses: int) -> dict[str, Any]:
    found = {"description": "So it is.", "content": {JSON: {"schema": schema}}}
    return {"operationId": name, "summary": summary, "responses": {"200": found, **_refused(*statuses)}}


def _refused(*statuses: int) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _path_parameters(config: EdgeConfig, *, versioned: bool) -> list[dict[str, Any]]:
    allowed = {"name": [config.model.name]} | ({"version": list(VERSIONS)} if versioned else {})
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "enum": values}}
        for name, values in allowed.items()
    ]


def _posted(name: str, summary: str, text: str, token: bool) -> dict[str, Any]:
    """What requests with a body have in common."""
    coded = "The body may be compressed: Content-Encoding gzip or deflate. Large answers are if Accept-Encoding asks."
    post: dict[str, Any] = {"operationId": name, "summary": summary, "description": f"{text} {coded}"}
    return post | {"security": [{"token": []}]} if token else post


def _infer(config: EdgeConfig, name: str, *, token: bool) -> dict[str, Any]:
    length = {
        "name": JSON_LENGTH_HEADER,
        "in": "header",
        "description": "Bytes of JSON, before those of the binary tensors.",
        "schema": {"type": "integer", "minimum": 0, "maximum": MAX_VALUES},
    }
    raw = {"type": "string", "format": "binary", "description": "JSON, then the bytes of tensors in the order named."}
    text = "Each input once, in any order. What is predicted is written down; feedback names it by prediction_id."
    return {
        **_posted(name, "Predictions of examples, and their ids.", text, token),
        "parameters": [length],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": _ref(InferenceRequest), "examples": {"one": {"value": example(config)}}},
                BYTES: {"schema": raw},
            },
        },
        "responses": {
            "200": {
                "description": "The predictions.",
                "headers": {JSON_LENGTH_HEADER: {"description": length["description"], "schema": length["schema"]}},
                "content": {JSON: {"schema": _ref(InferenceResponse)}, BYTES: {"schema": raw}},
            },
            **_refused(400, *([401] if token else []), 404, 413, 415, 503),
        },
    }


def _feedback(*, token: bool) -> dict[str, Any]:
    one = {"ids": [1], "labels": [1.0]}
    told = {"schema": _ref(Feedback), "examples": {"one": {"value": one}}}
    return {
        **_posted("feedback", "What came of predictions.", "One label for each id.", token),
        "requestBody": {"required": True, "content": {JSON: told}},
        "responses": {
            "200": {
                "description": "It is on disk, and will be learned.",
                "content": {JSON: {"schema": _ref(FeedbackCounts)}},
            },
            **_refused(400, *([401] if token else []), 404, 413, 415, 503),
        },
    }


def _refusals(config: EdgeConfig) -> dict[str, Any]:
    why = {
        400: "Something in the request is wrong.",
        401: "The token is missing or wrong.",
        404: "There is no such model or version.",
        413: f"The body is larger than {config.serve.max_body_bytes} bytes, or would be when decompressed.",
        415: "The body is compressed in a way that is not known here.",
        503: "Not now: nothing to predict with has been learned yet, or the disk is full.",
    }
    return {str(k): {"description": text, "content": {JSON: {"schema": _ref(Refusal)}}} for k, text in why.items()}


def _schemas(config: EdgeConfig) -> dict[str, Any]:
    """The bodies as JSON Schema, with what is particular to this edge's model."""
    bodies = (
        Refusal, Live, Ready, ServerMetadata, ModelMetadata, Feedback, FeedbackCounts,
        InferenceRequest, InferenceResponse, Fleet,
    )  # fmt: skip
    _, found = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    fields = config.model.fields
    plain = found.pop(RequestInput.__name__)
    inputs = found["InferenceRequest"]["properties"]["inputs"]
    inputs |= {"items": {"oneOf": [_input(plain, f) for f in fields]}, "minItems": len(fields), "maxItems": len(fields)}
    found["RequestOutput"]["properties"]["name"]["enum"] = list(OUTPUTS)
    output = found["ResponseOutput"]["properties"]
    output["name"]["enum"], output["datatype"]["enum"] = list(OUTPUTS), list(OUTPUTS.values())
    output["data"]["items"] = {"type": "number"}
    found["InferenceResponse"]["properties"]["model_name"]["const"] = config.model.name
    if config.model.task == "classify":
        found["Feedback"]["properties"]["labels"]["items"]["enum"] = [0, 1]
    # Values may lie in lists in lists, however the caller likes to nest them.
    for kind in ("string", "integer", "number", "boolean"):
        nested = {"type": "array", "items": {"$ref": f"#/components/schemas/{kind}s"}}
        found[f"{kind}s"] = {"anyOf": [{"type": kind}, nested]}
    return found


def _input(plain: Mapping[str, Any], field: FieldConfig) -> dict[str, Any]:
    """An input for one field."""
    kinds = {"id": ("string", "integer"), "category": ("integer", "boolean")}.get(field.kind, ("number", "boolean"))
    values = [{"type": "array", "items": {"$ref": f"#/components/schemas/{kind}s"}} for kind in kinds]
    narrowed = {
        "name": {"const": field.name},
        "datatype": {"type": "string", "enum": list(ACCEPTED[field.kind])},
        "data": {"anyOf": [*values, {"type": "null"}]},
    }
    return {**plain, "title": f"Input {field.name}", "properties": {**plain["properties"], **narrowed}}


def example(config: EdgeConfig) -> dict[str, Any]:
    """An inference request about one example."""
    first: Mapping[str, Any] = {"id": "ann", "category": 0}
    inputs = []
    for told, field in zip(metadata(config).inputs, config.model.fields, strict=True):
        values = [first[field.kind]] if field.kind in first else [0.0] * field.size
        inputs.append({"name": told.name, "shape": [1, *told.shape[1:]], "datatype": told.datatype, "data": values})
    return {"inputs": inputs}
