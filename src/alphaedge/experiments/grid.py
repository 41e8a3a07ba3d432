"""Which settings a sweep varies, and the points that they span. Pure.

A variation is written ``key=value,value,...``. The key is that of a configuration file, ``method.peers``, or its last
part where that is unambiguous, ``peers``. A value is written as in TOML; a word that is none is text.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from alphaedge.errors import InvalidValue
from alphaedge.simulation.config import Settings

Point = Mapping[str, Any]  # a value for each key
SECTIONS: Final = ("method", "conditions", "store")
# Not to be varied: the methods and seeds of a sweep are the same at every point.
_FIXED: Final = {"methods": "--methods", "seeds": "--seeds", "table": "--table", "data": "--data"}


def parse_variations(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Read variations by their full keys.

    >>> parse_variations(["peers=2,5", "conditions.drop=0.25"])
    {'method.peers': [2, 5], 'conditions.drop': [0.25]}
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        key = full_key(name.strip())
        if not equals or not values.strip():
            raise InvalidValue("set", text, "KEY=VALUE,VALUE,...")
        if key in found:
            raise InvalidValue("set", text, f"each key once; {key} is varied already")
        found[key] = [_parse_value(part) for part in _split(values)]
        if len({repr(v) for v in found[key]}) < len(found[key]):
            raise InvalidValue("set", text, "each value once")
    return found


def full_key(name: str, field: str = "set") -> str:
    """A setting's full key from a full or a short one; ``field`` is the option that names it.

    >>> full_key("batch_size"), full_key("peers"), full_key("method.peers")
    ('batch_size', 'method.peers', 'method.peers')
    """
    known = list(_keys())
    if name in _FIXED:
        raise InvalidValue(field, name, f"another setting; this one is given by {_FIXED[name]}")
    matches = [name] if name in known else [key for key in known if key.rpartition(".")[2] == name]
    if len(matches) != 1:
        allowed = " or ".join(matches) or "one of " + ", ".join(known)
        raise InvalidValue(field, name, allowed)
    return matches[0]


def points(variations: Mapping[str, Sequence[Any]], *, together: bool = False) -> list[Point]:
    """Every combination of the values; or, together, the first of all, the second of all, and so on.

    >>> points({"a": [1, 2], "b": [3, 4]}, together=True)
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    if together:
        varied = {key: values for key, values in variations.items() if len(values) > 1}
        lengths = {len(values) for values in varied.values()}
        if len(lengths) > 1:
            raise InvalidValue("together", {k: len(v) for k, v in varied.items()}, "as many values for each key")
        count = lengths.pop() if lengths else 1
        return [{k: v[i] if len(v) > 1 else v[0] for k, v in variations.items()} for i in range(count)]
    return [dict(zip(variations, values, strict=True)) for values in itertools.product(*variations.values())]


def nested(point: Point) -> dict[str, Any]:
    """A point as nested values, as a configuration file has them.

    >>> nested({"method.peers": 2, "rate": 0.01})
    {'method': {'peers': 2}, 'rate': 0.01}
    """
    found: dict[str, Any] = {}
    for key, value in point.items():
        section, _, name = key.rpartition(".")
        (found.setdefault(section, {}) if section else found)[name] = value
    return found


def _keys() -> Iterator[str]:
    for field in msgspec.structs.fields(Settings):
        if field.name in SECTIONS:
            yield from (f"{field.name}.{inner.name}" for inner in msgspec.structs.fields(field.type))
        elif field.name not in _FIXED:
            yield field.name


def _split(values: str) -> list[str]:
    """Cut at commas, but not within brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for character in values:
        if character in "\"'" and quote in ("", character):
            quote = "" if quote else character
        depth += 0 if quote else (character in "[{") - (character in "]}")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
