"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Union, get_args, get_origin

import msgspec

TYPES: Final = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    bytes: "bytes",
    memoryview: "bytes",
}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown. Empty columns are left out."""
    body = [list(row) for row in rows]
    used = [place for place in range(len(columns)) if any(row[place] for row in body)]
    lines = [[row[place] for place in used] for row in [columns, ["---"] * len(columns), *body]]
    return "\n".join("| " + " | ".join(cell(c) for c in line) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Markdown for the cell of a table: on one line, with bars escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def fence(text: str, language: str, options: str = "") -> str:
    """A block of code."""
    return f"```{' '.join([language, options]).strip()}\n{text.rstrip()}\n```\n"


def sentence(text: str) -> str:
    """A text with a capital in front and a full stop at the end."""
    text = " ".join(text.split())
    text = text if text[1:2] == ":" else text[:1].upper() + text[1:]  # a symbol, such as m, keeps its case
    return text if not text or text[-1] in ".!?:" else text + "."


def toml_value(value: Any) -> str:
    """A default as it would be written in a TOML file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(v) for v in value)}]"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    return str(value)


def type_name(annotation: Any) -> str:
    """A type in words."""
    inner = get_args(annotation)
    if annotation in TYPES:
        return TYPES[annotation]
    if hasattr(annotation, "__metadata__"):  # Annotated
        return type_name(inner[0])
    if str(get_origin(annotation)) == "typing.Literal":
        return ", ".join(f"`{toml_value(v)}`" for v in inner)
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(type_name(a) for a in inner if a not in (type(None), msgspec.UnsetType))
    if get_origin(annotation) is dict:
        return f"{type_name(inner[1])}, by {type_name(inner[0])}"
    if get_origin(annotation) is tuple and inner[-1] is not ...:
        return ", ".join(type_name(a) for a in inner)
    if inner:
        return f"list of {type_name(inner[0])}"
    return f"`{getattr(annotation, '__name__', annotation)}`"
