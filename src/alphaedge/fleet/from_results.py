"""Make a fleet folder from the results folder of a simulation."""

import datetime as dt
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import tomli_w

from alphaedge.core.fields import KEYED, Field
from alphaedge.errors import InvalidValue
from alphaedge.fleet.folders import write_fleet
from alphaedge.fleet.layout import Fleet, addresses
from alphaedge.fleet_state import STATE_FILE, FleetState
from alphaedge.replay.model_section import model_section
from alphaedge.simulation import config
from alphaedge.simulation.config import Settings

MODEL_NAME: Final = "model"
MIN_ROWS: Final = {"id": 10_000, "category": 1_000}  # room for values that are yet to come
GROWTH: Final = 2  # times the values that the simulation met


def init_fleet(
    results: Path,
    out: Path,
    *,
    now: dt.datetime,
    host: str | None = None,
    port: int = 8080,
    peer_port: int = 8443,
    factory: str | None = None,
    with_state: bool = True,
    done: Callable[[str], None] = lambda _: None,
) -> Fleet:
    """Make a fleet that starts where a simulation ended, and return it.

    results: the folder that ``alphaedge simulate --out`` wrote. host, port, peer_port: see ``layout.addresses``.
    factory: import path of the model, where the simulation was given one of its own. with_state: without it, the edges
    have learned nothing yet.
    """
    state, settings = FleetState.read(results / STATE_FILE), config.load(results / "config.toml")
    fleet = Fleet(
        data=state.description.name,
        model=MODEL_NAME,
        local=host is None,
        edges=tuple(addresses(state.names, host=host, port=port, peer_port=peer_port)),
    )
    write_fleet(
        out,
        fleet,
        _model(state, settings, factory),
        {"name": state.method} | _given(settings.method),
        seed=0,
        state=state if with_state else None,
        data_toml=data_section(settings),
        now=now,
        done=done,
    )
    return fleet


def data_section(settings: Settings) -> str:
    """How the data were read, for a replay of more of them."""
    table = msgspec.to_builtins(settings.table) if settings.table else None
    return tomli_w.dumps(_without_none({"data": settings.data, "table": table}))


def _model(state: FleetState, settings: Settings, factory: str | None) -> dict[str, Any]:
    """The ``[model]`` section: what the simulation learned with."""
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
        allowed = "MODULE:FACTORY of the model that the simulation was given"
        raise InvalidValue("model", None, allowed)
    return model


def _with_room(field: Field) -> Field:
    """A field with rows for more values than were met."""
    if field.kind not in KEYED:
        return field
    return Field(field.name, field.kind, max(GROWTH * field.size, MIN_ROWS[field.kind]), field.missing)


def _given(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(struct).items() if value is not None}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    plain = {k: _without_none(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in plain.items() if value is not None}
