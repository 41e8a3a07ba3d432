"""What ``simulate`` is given, checked: a wrong name or kind of argument is refused with the right way to say it."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from torch import nn

from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset
from alphaedge.data.table import Table
from alphaedge.errors import InvalidValue
from alphaedge.simulation.config import Settings

FROM_FRAME: Final = "data=alphaedge.Dataset.from_frame({frame}, time=..., edge=..., label=...)"
OWN_MODEL: Final = "a function that makes a Model: lambda: alphaedge.Model(YourModule(), fields=[...], tables=[...])"
# What other libraries call it.
OTHER_NAMES: Final[Mapping[str, str]] = {
    "dataset": "data=",
    "streams": "data=",
    "df": FROM_FRAME.format(frame="df"),
    "frame": FROM_FRAME.format(frame="frame"),
    "file": FROM_FRAME.format(frame="polars.read_csv(file)"),
    "path": FROM_FRAME.format(frame="polars.read_csv(path)"),
    "csv": FROM_FRAME.format(frame="polars.read_csv(csv)"),
    "seed": "seeds=, the number of runs; run s has seed s",
    "random_state": "seeds=, the number of runs; run s has seed s",
    "runs": "seeds=",
    "algorithm": "methods=[...]",
    "strategy": "methods=[...]",
    "lr": "rate=",
    "learning_rate": "rate=",
    "epochs": "local_steps=, gradient steps on each batch; every event comes once",
    "module": f"model=, {OWN_MODEL}",
    "net": f"model=, {OWN_MODEL}",
    "n_jobs": "jobs=",
    "processes": "jobs=",
    "out": "none here: simulate(...).save(folder) writes the results",
    "output": "none here: simulate(...).save(folder) writes the results",
}
ARGUMENTS: Final = ("data", "model", "methods", "jobs", "workers", "checkpoints", "checkpoint_every", "keep_state")


def check(settings: object, data: object, model: object, methods: object, changes: Mapping[str, Any]) -> None:
    """Refuse arguments of ``simulate`` by name or kind, before anything is made of them."""
    if not isinstance(settings, Settings | None):
        raise InvalidValue("settings", _kind(settings), _right_data(settings) or "an alphaedge.Settings")
    if not isinstance(data, Dataset | None):
        allowed = _right_data(data) or f"a Dataset; of a data frame: {FROM_FRAME.format(frame='frame')}"
        raise InvalidValue("data", _kind(data), allowed)
    if isinstance(model, Model | nn.Module | str) or not (model is None or callable(model)):
        raise InvalidValue("model", _kind(model), OWN_MODEL)
    _check_methods(methods)
    for name, value in changes.items():
        _check_change(name, value)


def _check_methods(methods: object) -> None:
    if isinstance(methods, str):
        raise InvalidValue("methods", methods, f"a list of names: methods={_names(methods)}")
    if isinstance(methods, Sequence | Mapping) and not methods:
        raise InvalidValue("methods", methods, "at least one")


def _check_change(name: str, value: object) -> None:
    fields = {f.name: f.type for f in msgspec.structs.fields(Settings)}
    if name not in fields:
        raise InvalidValue("simulate", name, _right_name(name, list(dict.fromkeys([*ARGUMENTS, *fields]))))
    if name == "table" and not isinstance(value, Table | None):
        raise InvalidValue("table", value, _right_data(value) or FROM_FRAME.format(frame="frame"))
    kind = fields[name]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not isinstance(value, kind):
        allowed = f"an alphaedge.{kind.__name__}"
        if name == "method" and isinstance(value, str):
            allowed = f"methods={_names(value)}, or {allowed} with what all methods have in common"
        raise InvalidValue(name, value, allowed)


def _right_name(name: str, known: Sequence[str]) -> str:
    """What to write instead of a name that ``simulate`` does not have."""
    everything = f"one of {', '.join(known)}"
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    for section, kind in _sections():
        if name in kind.__struct_fields__:
            return f"{section}=alphaedge.{kind.__name__}({name}=...)"
    if name in Table.__struct_fields__:
        return FROM_FRAME.format(frame="frame")
    near = get_close_matches(name.lower(), known, n=1)
    return f"{near[0]}=, or another {everything}" if near else everything


def _sections() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """The parts of the settings that have names of their own."""
    for field in msgspec.structs.fields(Settings):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield field.name, field.type


def _right_data(found: object) -> str | None:
    """What to write instead, of something that is or names data; None if it is neither."""
    if isinstance(found, Dataset):
        return "data= with this Dataset"
    if isinstance(found, str):
        if "." in found:
            read = "read_parquet" if found.endswith((".parquet", ".pq")) else "read_csv"
            return FROM_FRAME.format(frame=f"polars.{read}({found!r})")
        return f"a Dataset; one of the catalog by its name: alphaedge.Settings(data={found!r}) as the first argument"
    return FROM_FRAME.format(frame="frame") if hasattr(found, "columns") else None


def _kind(found: object) -> object:
    return found if isinstance(found, str) else type(found).__name__


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
