"""An exported model as a folder: ``model.safetensors`` with all numbers, ``description.json`` with what they mean.

Tensors go by the names of the module: ``mixed.*`` and ``home.*`` are parameters and buffers, ``told.*`` what a model is
told of each row, ``share`` the mixed model's share in a prediction, ``keys.*`` the keys of rows whose values are not
known. Reading a folder runs no code.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from alphaedge import __version__, toml
from alphaedge.core.fields import KEYED
from alphaedge.core.model import Model
from alphaedge.edge.config import FieldConfig, ModelConfig
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.errors import InvalidValue
from alphaedge.fleet.snapshot import SECRET, Part, Snapshot

FORMAT: Final = 1
MODEL_FILE: Final = "model.safetensors"
DESCRIPTION_FILE: Final = "description.json"
LICENCE: Final = "The model belongs to whoever trained it. AlphaEdge is licensed under Apache-2.0."
UNKNOWN: Final = "the last row, which is what new ids start with"


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One field, and how to feed it. rows: of its id table, without the last; values: of these rows, if known."""

    name: str
    kind: str
    size: int
    missing: bool
    send: str
    rows: int | None = None
    values: list[str] | None = None
    unknown: str | None = None


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What an exported model is."""

    format: int
    alphaedge: str
    edge: str
    task: str
    output: str
    blend: str
    inputs: list[Input]
    model: dict[str, Any]
    licence: str


def describe(snapshot: Snapshot) -> Description:
    """Describe a model for those who use it elsewhere."""
    config = snapshot.config
    tables: dict[str, str] = {}
    for layout in snapshot.model.tables:
        tables |= {snapshot.model.fields[field]: layout.name for field in layout.fields}
    inputs = []
    for field in config.fields:
        table = tables.get(field.name)
        inputs.append(
            Input(
                name=field.name,
                kind=field.kind,
                size=field.size,
                missing=field.missing,
                send=_how_to_send(field),
                rows=len(snapshot.keys[table]) if table is not None else None,
                values=list(snapshot.values[table]) if table is not None and snapshot.values is not None else None,
                unknown=UNKNOWN if table is not None else None,
            )
        )
    return Description(
        format=FORMAT,
        alphaedge=__version__,
        edge=snapshot.edge,
        task=config.task,
        output="the probability of the label 1" if config.task == "classify" else "the label, in its own unit",
        blend="share * mixed + (1 - share) * home, before the sigmoid" if "home" in snapshot.parts else "mixed alone",
        inputs=inputs,
        model=msgspec.to_builtins(config),
        licence=LICENCE,
    )


def _how_to_send(field: FieldConfig) -> str:
    if field.kind in KEYED:
        return "text in canonical form: whole numbers as their digits, no spaces around it, Unicode NFC; nothing is ''"
    if field.kind == "code":
        return f"a whole number from 0 to {field.size - 1}"
    many = f"{field.size} numbers" if field.size > 1 else "a number"
    return f"{many}; NaN where it is missing" if field.missing else many


def encode_tensors(snapshot: Snapshot) -> bytes:
    """The tensors as the bytes of a file."""
    found = {"share": torch.tensor([snapshot.share], dtype=torch.float64)}
    for name, part in snapshot.parts.items():
        found |= {f"{name}.{key}": tensor for key, tensor in part.tensors.items()}
        found |= {f"told.{name}.{table}": tensor for table, tensor in part.told.items()}
    if snapshot.values is None:
        found |= {f"keys.{name}": torch.tensor(keys, dtype=torch.long) for name, keys in snapshot.keys.items()}
    return encode({name: tensor.contiguous() for name, tensor in found.items()}, {"alphaedge": __version__})


def read_export(folder: Path, *, model: str | None, secret: Path | None) -> Snapshot:
    """Read an exported folder. model: import path of a model of one's own. secret: file, for rows by keys."""
    where = f"{folder}: {DESCRIPTION_FILE}, {MODEL_FILE}"
    try:
        about = msgspec.json.decode((folder / DESCRIPTION_FILE).read_bytes(), type=Description)
        if about.format != FORMAT:
            raise InvalidValue("format", f"{about.format} in {folder / DESCRIPTION_FILE}", str(FORMAT))
        config = toml.build(_model_config(about, model), ModelConfig)
        tensors, made = decode((folder / MODEL_FILE).read_bytes()), config.make()
        values = None
        if all(one.values is not None for one in about.inputs if one.rows is not None):
            by_field = {one.name: one.values or [] for one in about.inputs}
            values = {layout.name: by_field[made.fields[layout.fields[0]]] for layout in made.tables}
        return Snapshot(
            edge=about.edge,
            config=config,
            model=made,
            share=float(tensors["share"]),
            parts={name: _part(made, name, tensors) for name in ("mixed", "home") if _has(name, tensors)},
            keys={
                layout.name: tensors[f"keys.{layout.name}"].tolist()
                if values is None
                else [key_of(value, SECRET) for value in values[layout.name]]
                for layout in made.tables
            },
            secret=SECRET if values is not None else _read_secret(folder, secret),
            values=values,
        )
    except (OSError, SafetensorError, msgspec.MsgspecError, KeyError) as error:
        raise InvalidValue("export", where, f"files that `alphaedge export` wrote ({error})") from error


def _model_config(about: Description, model: str | None) -> dict[str, Any]:
    """The configuration of the model; an import path comes from the caller only, since it runs code."""
    given = {key: value for key, value in about.model.items() if value is not None and key != "optimizer"}
    if "factory" in given:
        if model is None:
            raise InvalidValue("model", None, f"the import path of the model; it was exported as {given['factory']}")
        given["factory"] = model
    return given


def _read_secret(folder: Path, secret: Path | None) -> bytes:
    if secret is None:
        allowed = f"the fleet's secret file: {folder} is of a live edge, which knows ids by their keys only"
        raise InvalidValue("secret", None, allowed)
    return secret.read_bytes().strip()


def _has(name: str, tensors: dict[str, Tensor]) -> bool:
    return any(key.startswith(f"{name}.") for key in tensors)


def _part(model: Model, name: str, tensors: dict[str, Tensor]) -> Part:
    told = {layout.name: tensors[f"told.{name}.{layout.name}"] for layout in model.tables if layout.tallied}
    return Part({k.removeprefix(f"{name}."): v for k, v in tensors.items() if k.startswith(f"{name}.")}, told)
