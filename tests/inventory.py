"""What the code has, found by other means than those of ``tools.reference``: keys, commands, options and metrics."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import typer

from alphaedge.cli import app
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, write_status

ROOT = Path(__file__).parent.parent
COMMON_OPTIONS = {"--help", "--install-completion", "--show-completion"}  # of every command, and of all typer programs


def keys(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The keys of a configuration file, each with its section."""
    for field in msgspec.structs.fields(struct):
        inner = [t for t in _types(field.type) if isinstance(t, type) and issubclass(t, msgspec.Struct)]
        if inner:
            yield from keys(inner[0], f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def _commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(app)
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from _commands(one, (*words, name))
        else:
            yield (*words, name), one


COMMANDS = dict(_commands())
OPTIONS = {
    words: {o for p in one.params if p.param_type_name == "option" for o in (*p.opts, *p.secondary_opts)}
    - COMMON_OPTIONS
    for words, one in COMMANDS.items()
}


def default_of(*words: str, name: str) -> Any:
    """The default of a command's parameter."""
    return next(p.default for p in COMMANDS[words].params if p.name == name)


def metrics(folder: Path) -> dict[str, tuple[str, str]]:
    """Metrics by their Prometheus names, each with type and help, from the page of an edge that has a peer."""
    write_status(
        LearnerStatus(edge="a", region="DE", schema="0", started=0.0, peers={"b": PeerStatus(region="US")}),
        folder / "status.json",
    )
    page = Metrics(folder / "status.json", lambda: 0, time.time).render().decode()
    types = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", page))
    helps = dict(re.findall(r"(?m)^# HELP (\w+) (.+)$", page))
    return {name: (kind, helps[name]) for name, kind in types.items() if not name.endswith("_created")}


def new_edge(folder: Path) -> EdgeConfig:
    """The configuration that ``alphaedge edge init`` writes."""
    path = folder / "edge.toml"
    if not path.exists():
        text = (ROOT / "src/alphaedge/edge/example.toml").read_text(encoding="utf-8")
        path.write_text(text.replace("{edge}", "berlin").replace("{region}", "DE"), encoding="utf-8")
    return load(path)
