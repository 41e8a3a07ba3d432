"""Read and write configuration files: TOML to structs and back; errors name the key, the value and what is allowed."""

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar, get_args, get_origin

import msgspec
import tomli_w

from alphaedge.config_types import allowed_at
from alphaedge.errors import InvalidValue, check_choice

S = TypeVar("S", bound=msgspec.Struct)


def dumps(struct: msgspec.Struct) -> str:
    """Write a struct as TOML that ``load`` reads back; leaves out None."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(struct, str_keys=True)))


def read(path: Path) -> dict[str, Any]:
    """Read a configuration file as nested plain values."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("config", str(path), f"a readable file ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("config", str(path), f"a TOML file ({error})") from error


def load(path: Path, kind: type[S], overrides: dict[str, Any] | None = None) -> S:
    """Read a configuration file; ``overrides`` (nested like the file) win."""
    return build(merge(read(path), overrides or {}), kind)


def build(raw: dict[str, Any], kind: type[S]) -> S:
    """Build a struct from nested plain values, such as a file or the command line gives."""
    _check_keys(raw, kind, "")
    try:
        return msgspec.convert(raw, kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidValue):
            raise error.__cause__ from None
        raise _refusal(error, raw, kind) from None


def _refusal(error: msgspec.ValidationError, raw: dict[str, Any], kind: type[msgspec.Struct]) -> InvalidValue:
    """Turn an error of msgspec into one that names the key, the value found there and what is allowed."""
    text, _, where = str(error).partition(" - at ")
    where = where.replace("`", "").replace("$.", "").removeprefix("$")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", text):
        key = f"{where}.{missing[1]}".lstrip(".")
        return InvalidValue(key, None, f"{allowed_at(kind, key)}; add it")
    typed = text.startswith(("Expected ", "Invalid enum value")) and not where.startswith("key in ")
    return InvalidValue(where or "config", _lookup(raw, where), allowed_at(kind, where) if typed else text)


def _check_keys(raw: dict[str, Any], kind: type[msgspec.Struct], prefix: str) -> None:
    known = {f.name: f.type for f in msgspec.structs.fields(kind)}
    for key, value in raw.items():
        if key not in known:
            raise InvalidValue(f"config key {prefix}{key}", value, "one of " + ", ".join(known))
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidValue(f"{prefix}{key}", value, "a finite number")
        inner = next((t for t in _parts(known[key]) if _is_struct(t) or get_origin(t) is Literal), known[key])
        if get_origin(inner) is Literal and isinstance(value, str):
            check_choice(f"{prefix}{key}", value, get_args(inner))
        if _is_struct(inner) and isinstance(value, dict):
            _check_keys(value, inner, f"{prefix}{key}.")
        for place, item in enumerate(value if _is_struct(inner) and isinstance(value, list) else ()):
            if isinstance(item, dict):
                _check_keys(item, inner, f"{prefix}{key}[{place}].")


def _parts(kind: Any) -> Iterator[Any]:
    """A type and the types that it is made of."""
    yield kind
    for part in get_args(kind):
        yield from _parts(part)


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _lookup(raw: Any, path: str) -> Any:
    """Find the value at one of msgspec's paths; where that says only ``[...]``, the first that is not a number."""
    for key in re.findall(r"[^.\[\]]+|\[\.\.\.\]", path.removeprefix("key in ")):
        if key == "[...]" and isinstance(raw, dict):
            raw = next((v for v in raw.values() if not isinstance(v, int | float)), raw)
        elif isinstance(raw, list | tuple) and key.isdigit():
            raw = raw[int(key)]
        elif isinstance(raw, dict) and key in raw:
            raw = raw[key]
    if isinstance(raw, dict):
        return next((k for k in raw if not str(k).isdigit()), raw)
    return raw


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge nested values; those in ``over`` win."""
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = merge(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return merged


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value
