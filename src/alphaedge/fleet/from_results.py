"""Make a fleet folder from the results folder of a simulation."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import tomli_w

from alphaedge.data.table.columns import NO_LAST
from alphaedge.edge.config import EdgeConfig
from alphaedge.errors import InvalidValue
from alphaedge.fleet.edge_sections import MODEL_NAME, method_config, model_config
from alphaedge.fleet.folders import write_fleet
from alphaedge.fleet.history import read_history, start_from_history, with_history
from alphaedge.fleet.layout import Fleet, addresses
from alphaedge.fleet.warm_start import warm_start
from alphaedge.fleet_state import STATE_FILE, Description, FleetState
from alphaedge.simulation import config
from alphaedge.simulation.config import Settings

FROM_PYTHON: Final = """\
# The data of the simulation came from Python. A replay needs a table of events with the columns below: --table FILE,
# and --time, --edge and --label for those that are not named here.
"""
_INPUTS: Final = {"id": "ids", "category": "categories", "number": "numbers"}


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
    history: str | None = None,
    done: Callable[[str], None] = lambda _: None,
) -> Fleet:
    """Make a fleet that starts where a simulation ended, and return it.

    results: the folder that ``alphaedge simulate --out`` wrote. host, port, peer_port: see ``layout.addresses``.
    factory: import path of the model, where the simulation was given one of its own. with_state: without it, the edges
    have learned nothing yet. history: a table with the columns of the simulated one; the edges start from its events
    instead, and places that are only there get an edge, too.
    """
    state, settings = FleetState.read(results / STATE_FILE), config.load(results / "config.toml")
    if history is not None and not with_state:
        raise InvalidValue("history", history, "no table for edges that are to start without anything learned")
    events = None if history is None else read_history(history, settings)
    places = list(dict.fromkeys([*state.names, *(events.edge_names if events is not None else ())]))
    fleet = Fleet(
        data=state.description.name,
        model=MODEL_NAME,
        local=host is None,
        edges=tuple(addresses(places, host=host, port=port, peer_port=peer_port)),
    )
    names = [edge.name for edge in fleet.edges]
    if events is not None:
        state = msgspec.structs.replace(state, description=with_history(state.description, events))

    def start(edge: EdgeConfig, folder: Path, number: int, secret: bytes) -> None:
        if events is not None:
            start_from_history(edge, folder, events, places[number], secret, now.timestamp())
        else:
            warm_start(edge, folder, state, number, names, secret, now.timestamp())

    write_fleet(
        out,
        fleet,
        model_config(state, settings, factory),
        method_config(state, settings),
        seed=0,
        start=start if with_state else None,
        data_toml=data_section(settings, state.description),
        now=now,
        done=done,
    )
    return fleet


def data_section(settings: Settings, about: Description) -> str:
    """How the data were read, for a replay of more of them."""
    if about.from_python:
        return FROM_PYTHON + tomli_w.dumps({"data": "table", "table": _table_columns(about)})
    table = msgspec.to_builtins(settings.table) if settings.table else None
    return tomli_w.dumps(_without_none({"data": settings.data, "table": table}))


def _table_columns(about: Description) -> dict[str, Any]:
    """The columns of a table with more of such data, as far as they are known."""
    inputs: dict[str, list[str]] = {option: [] for option in _INPUTS.values()}
    for field in about.fields:
        if field.kind in _INPUTS:
            inputs[_INPUTS[field.kind]].append(field.name)
    return {**about.columns, **inputs, "only": True, "last": about.last or NO_LAST, "task": about.task}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    plain = {k: _without_none(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in plain.items() if value is not None}
