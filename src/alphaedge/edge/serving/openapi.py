"""The OpenAPI 3.1 description of an edge's public API: requests, responses and refusals."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from alphaedge.core.fields import KEYED
from alphaedge.edge.config import EdgeConfig, FieldConfig
from alphaedge.edge.serving.messages import (
    Live,
    ModelMetadata,
    ModelParameters,
    Ready,
    Refusal,
    ServerMetadata,
    TensorMetadata,
)
from alphaedge.inference.feedback import Feedback, FeedbackCounts
from alphaedge.inference.server_codec import InferenceRequest, InferenceResponse, RequestInput
from alphaedge.inference.tensor_values import MAX_VALUES
from alphaedge.inference.tensors import DATATYPES, JSON_LENGTH_HEADER
from alphaedge.monitoring.frames import Fleet

PLATFORM: Final = "alphaedge"
PATH: Final = "/v2/openapi.json"
VERSIONS: Final = ("1",)  # of the model; learning does not create a new one
OUTPUTS: Final = {"prediction": "FP32", "prediction_id": "INT64"}
INPUT_TYPES: Final = {"id": "BYTES", "category": "BYTES", "code": "INT64", "set": "FP32", "number": "FP32"}
_INTEGERS: Final = tuple(name for name in DATATYPES if "INT" in name)
ACCEPTED_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(KEYED, ("BYTES", *DATATYPES)),
    "code": ("BOOL", *_INTEGERS),
    **dict.fromkeys(("set", "number"), tuple(DATATYPES)),
}
# What a JSON list of values may have in it; null is a value that is missing.
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("string", "null"), "integer": ("integer",), "number": ("number",), "boolean": ("boolean",),
    "measurement": ("number", "null"),
}  # fmt: skip
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
READY: Final = "The model can predict, and predictions can be written to disk."


def model_metadata(config: EdgeConfig) -> ModelMetadata:
    """The model's metadata, as the protocol defines them."""
    inputs = [
        TensorMetadata(f.name, INPUT_TYPES[f.kind], [-1, f.size] if f.kind in ("set", "number") else [-1])
        for f in config.model.fields
    ]
    outputs = [TensorMetadata(name, kind, [-1]) for name, kind in OUTPUTS.items()]
    parameters = ModelParameters(config.model.task, config.model.classes)
    return ModelMetadata(config.model.name, list(VERSIONS), PLATFORM, inputs, outputs, parameters)


def describe(config: EdgeConfig, version: str, *, token: bool) -> dict[str, Any]:
    """The description of the API. version: of the server. token: whether callers must send one."""
    model, versioned = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
    paths: dict[str, Any] = {
        PATH: {
            "get": _get("description", "Describe this API.", "The OpenAPI document.", {"type": "object"}),
        },
        "/v2": {
            "get": _get(
                "server", "Describe the server.", "Its name, version and protocol extensions.", _ref(ServerMetadata)
            ),
        },
        "/v2/health/live": {
            "get": _get("live", "Check that the server answers.", "The server answers.", _ref(Live)),
        },
        "/v2/health/ready": {
            "get": _get("ready", "Check that the edge can predict.", READY, _ref(Ready), 503),
        },
    }
    fleet = _get(
        "fleet",
        "Get the history of the fleet, as this edge sees it.",
        "All edges over time: scores, latencies and links.",
        _ref(Fleet),
        *([401] if token else []),
    )
    paths["/fleet"] = {"get": fleet | ({"security": [{"token": []}]} if token else {})}
    for path, tail in ((model, ""), (versioned, "OfVersion")):
        parameters = {"parameters": _path_parameters(config, versioned=path is versioned)}
        described = "Names, datatypes and shapes of its inputs and outputs; what it predicts."
        about = _get(f"model{tail}", "Describe the model.", described, _ref(ModelMetadata), 404)
        ready = _get(f"modelReady{tail}", "Check that the model can predict.", READY, _ref(Ready), 404, 503)
        paths[path] = {**parameters, "get": about}
        paths[f"{path}/ready"] = {**parameters, "get": ready}
        paths[f"{path}/infer"] = {**parameters, "post": _infer(config, f"infer{tail}", token=token)}
    parameters = {"parameters": _path_parameters(config, versioned=False)}
    paths[f"{model}/feedback"] = {**parameters, "post": _feedback(token=token)}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": f"AlphaEdge: {config.model.name}",
            "version": version,
            "description": "Predictions by the Open Inference Protocol v2, and feedback, from which the edge learns.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _schemas(config), "responses": _refusals(config)},
    }
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _ref(body: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{body.__name__}"}


def _get(name: str, summary: str, returns: str, schema: dict[str, Any], *refusals: int) -> dict[str, Any]:
    """A GET operation. returns: what a caller gets. refusals: statuses beside 200."""
    ok = {"description": returns, "content": {JSON: {"schema": schema}}}
    return {"operationId": name, "summary": summary, "responses": {"200": ok, **_refused(*sorted((*refusals, 429)))}}


def _refused(*statuses: int) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _path_parameters(config: EdgeConfig, *, versioned: bool) -> list[dict[str, Any]]:
    allowed = {"name": [config.model.name]} | ({"version": list(VERSIONS)} if versioned else {})
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "enum": values}}
        for name, values in allowed.items()
    ]


def _post(name: str, summary: str, text: str, token: bool) -> dict[str, Any]:
    """What operations with a request body have in common."""
    coding = (
        "The body may be compressed (Content-Encoding gzip or deflate); large responses are if Accept-Encoding allows."
    )
    post: dict[str, Any] = {"operationId": name, "summary": summary, "description": f"{text} {coding}"}
    return post | {"security": [{"token": []}]} if token else post


def _infer(config: EdgeConfig, name: str, *, token: bool) -> dict[str, Any]:
    length = {
        "name": JSON_LENGTH_HEADER,
        "in": "header",
        "description": "Bytes of JSON, which the bytes of binary tensors follow.",
        "schema": {"type": "integer", "minimum": 0, "maximum": MAX_VALUES},
    }
    raw = {"type": "string", "format": "binary", "description": "JSON, then the bytes of tensors in the order named."}
    text = "Send each input once, in any order. Predictions are written to disk; feedback names them by prediction_id."
    return {
        **_post(name, "Predict examples.", text, token),
        "parameters": [length],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": _ref(InferenceRequest), "examples": {"one": {"value": example_request(config)}}},
                BYTES: {"schema": raw},
            },
        },
        "responses": {
            "200": {
                "description": "A prediction and a prediction id for each example.",
                "headers": {JSON_LENGTH_HEADER: {"description": length["description"], "schema": length["schema"]}},
                "content": {JSON: {"schema": _ref(InferenceResponse)}, BYTES: {"schema": raw}},
            },
            **_refused(400, *([401] if token else []), 404, 413, 415, 429, 503),
        },
    }


def _feedback(*, token: bool) -> dict[str, Any]:
    one = {"ids": [1], "labels": [1.0]}
    body = {"schema": _ref(Feedback), "examples": {"one": {"value": one}}}
    text = "Send one label for each prediction id. Sending a label again is harmless."
    return {
        **_post("feedback", "Report the labels of earlier predictions.", text, token),
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {
            "200": {
                "description": "How many labels were accepted; these are on disk and will be learned.",
                "content": {JSON: {"schema": _ref(FeedbackCounts)}},
            },
            **_refused(400, *([401] if token else []), 404, 413, 415, 429, 503),
        },
    }


def _refusals(config: EdgeConfig) -> dict[str, Any]:
    why = {
        400: "A value in the request is not allowed; the body names it.",
        401: "The token is missing or wrong.",
        404: "There is no such model or version.",
        413: f"The body, or what it decodes to, is larger than {config.serve.max_body_bytes} bytes, or the JSON in it, "
        f"or what it decompresses to, is larger than {config.serve.max_json_bytes} bytes, or the request has more than "
        f"{config.serve.max_examples} examples or labels; the body says what was found.",
        415: "The content encoding of the body is not supported.",
        429: "This caller has sent too many requests; Retry-After says when to send the next one.",
        503: "The edge can't answer now: the learner has not written parameters yet, the disk is full, or too many "
        "large requests are being answered.",
    }
    return {str(k): {"description": text, "content": {JSON: {"schema": _ref(Refusal)}}} for k, text in why.items()}


def _schemas(config: EdgeConfig) -> dict[str, Any]:
    """JSON Schema of the bodies, narrowed to this edge's model."""
    bodies = (
        Refusal, Live, Ready, ServerMetadata, ModelMetadata, Feedback, FeedbackCounts,
        InferenceRequest, InferenceResponse, Fleet,
    )  # fmt: skip
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    fields = config.model.fields
    plain = schemas.pop(RequestInput.__name__)
    inputs = schemas["InferenceRequest"]["properties"]["inputs"]
    inputs |= {"items": {"oneOf": [_input(plain, f) for f in fields]}, "minItems": len(fields), "maxItems": len(fields)}
    schemas["RequestOutput"]["properties"]["name"]["enum"] = list(OUTPUTS)
    output = schemas["ResponseOutput"]["properties"]
    output["name"]["enum"], output["datatype"]["enum"] = list(OUTPUTS), list(OUTPUTS.values())
    output["data"]["items"] = {"type": "number"}
    schemas["InferenceResponse"]["properties"]["model_name"]["const"] = config.model.name
    if config.model.task == "classify":
        schemas["Feedback"]["properties"]["labels"]["items"]["enum"] = [0, 1]
    # Values may be nested in lists to any depth.
    for kind, types in _VALUES.items():
        nested = {"type": "array", "items": {"$ref": f"#/components/schemas/{kind}s"}}
        schemas[f"{kind}s"] = {"anyOf": [*({"type": one} for one in types), nested]}
    return schemas


def _input(plain: Mapping[str, Any], field: FieldConfig) -> dict[str, Any]:
    """JSON Schema of the input for one field."""
    keyed = ("string", "integer", "boolean")
    numbers = ("measurement" if field.missing else "number", "boolean")
    kinds = {"id": keyed, "category": keyed, "code": ("integer", "boolean")}.get(field.kind, numbers)
    values = [{"type": "array", "items": {"$ref": f"#/components/schemas/{kind}s"}} for kind in kinds]
    narrowed = {
        "name": {"const": field.name},
        "datatype": {"type": "string", "enum": list(ACCEPTED_TYPES[field.kind])},
        "data": {"anyOf": [*values, {"type": "null"}]},
    }
    return {**plain, "title": f"Input {field.name}", "properties": {**plain["properties"], **narrowed}}


def example_request(config: EdgeConfig) -> dict[str, Any]:
    """An inference request with one example."""
    first: Mapping[str, Any] = {"id": "ann", "category": "blue", "code": 0}
    inputs = []
    for tensor, field in zip(model_metadata(config).inputs, config.model.fields, strict=True):
        data = [first[field.kind]] if field.kind in first else [0.0] * field.size
        inputs.append({"name": tensor.name, "shape": [1, *tensor.shape[1:]], "datatype": tensor.datatype, "data": data})
    return {"inputs": inputs}
