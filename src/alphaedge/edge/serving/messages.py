"""JSON bodies of the public API, beside those of inference and feedback."""

from typing import Literal, final

import msgspec


@final
class Refusal(msgspec.Struct, frozen=True):
    """Why a request was refused: the field, the value found and what is allowed."""

    error: str


@final
class Live(msgspec.Struct, frozen=True):
    """The server answers."""

    live: Literal[True] = True


@final
class Ready(msgspec.Struct, frozen=True):
    """The model can predict, and the prediction can be written to disk. name: of the model."""

    name: str
    ready: Literal[True] = True


@final
class ServerMetadata(msgspec.Struct, frozen=True):
    """The server. extensions: of the protocol, that it supports."""

    name: str
    version: str
    extensions: list[str]


@final
class TensorMetadata(msgspec.Struct, frozen=True):
    """An input or output. shape: -1 stands for the number of examples."""

    name: str
    datatype: str
    shape: list[int]


@final
class ModelParameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the protocol has no place for. classes: what your data call the labels 0 and 1, where they have names."""

    task: Literal["classify", "regress"]
    classes: tuple[str, str] | None = None


@final
class ModelMetadata(msgspec.Struct, frozen=True):
    """The model, its inputs and its outputs."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    parameters: ModelParameters


@final
class Links(msgspec.Struct, frozen=True):
    """Where to go on from ``/``."""

    name: str
    version: str
    dashboard: str
    description: str
    model: str
    ready: str
    metrics: str
