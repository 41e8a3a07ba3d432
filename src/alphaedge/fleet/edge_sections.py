"""The sections of an edge's configuration that say what a simulation learned with: ``[model]`` and ``[method]``."""

import tomllib
from typing import Any, Final

import msgspec

from alphaedge import toml
from alphaedge.core.fields import KEYED, Field
from alphaedge.errors import InvalidValue
from alphaedge.fleet_state import FleetState
from alphaedge.replay.model_section import model_section
from alphaedge.simulation.config import Settings

MODEL_NAME: Final = "model"
MIN_ROWS: Final = {"id": 10_000, "category": 1_000}  # room for values that are yet to come
GROWTH: Final = 2  # times the values that the simulation met


def model_config(state: FleetState, settings: Settings, factory: str | None) -> dict[str, Any]:
    """The ``[model]`` section. factory: import path of the model, where the simulation was given one of its own."""
    description, fields = state.description, [_with_room(f) for f in state.description.fields]
    text = model_section(
        msgspec.structs.replace(description, fields=tuple(fields)),
        name=MODEL_NAME,
        batch_size=state.batch_size,
        rate=settings.model_rate,
        builtin=state.builtin,
    )
    model: dict[str, Any] = tomllib.loads(text)["model"]
    model |= {"id_rows": settings.row_optimizer, "id_rate": settings.id_rate, "local_steps": settings.local_steps}
    if settings.optimizer is not None:
        model["optimizer"] = settings.optimizer
    if factory is not None:
        of_builtins = ("builtin", "hidden", "label_scale", "last", "relative")
        model = {key: value for key, value in model.items() if key not in of_builtins} | {"factory": factory}
    elif state.builtin is None:
        raise InvalidValue("model", None, "MODULE:FACTORY of the model that the simulation was given")
    return model


def method_config(state: FleetState, settings: Settings) -> dict[str, Any]:
    """The ``[method]`` section."""
    given: dict[str, Any] = tomllib.loads(toml.dumps(settings.method))
    return {"name": state.method} | given


def _with_room(field: Field) -> Field:
    """A field with rows for more values than were met."""
    if field.kind not in KEYED:
        return field
    return Field(field.name, field.kind, max(GROWTH * field.size, MIN_ROWS[field.kind]), field.missing)
