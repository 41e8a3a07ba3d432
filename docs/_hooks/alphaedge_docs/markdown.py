"""Pieces of Markdown."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any, Union, get_args, get_origin

import msgspec

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", bytes: "bytes"}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown. Columns that have nothing in them are left out."""
    found = [list(row) for row in rows]
    full = [place for place in range(len(columns)) if any(row[place] for row in found)]
    lines = [[row[place] for place in full] for row in [columns, ["---"] * len(columns), *found]]
    return "\n".join("| " + " | ".join(cell(c) for c in line) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Markdown that fits into a cell: one line, and no bars."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def fence(text: str, language: str, options: str = "") -> str:
    """A block of code."""
    return f"```{' '.join([language, options]).strip()}\n{text.rstrip()}\n```\n"


def anchored(kind: str, name: str, shown: str | None = None) -> str:
    """A name as code that can be linked to: ``#kind-name``. Tests look for these."""
    return f'<a id="{kind}-{html.escape(name)}" class="name"></a>`{name if shown is None else shown}`'


def sentence(text: str) -> str:
    """With a capital at the front and a full stop at the end."""
    text = " ".join(text.split())
    text = text if text[1:2] == ":" else text[:1].upper() + text[1:]  # a symbol, such as m, stays as it is
    return text if not text or text[-1] in ".!?:" else text + "."


def plain(value: Any) -> str:
    """A default as somebody would write it into a TOML file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(plain(v) for v in value)}]"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    return str(value)


def kind(annotation: Any) -> str:
    """A type in words."""
    inner = get_args(annotation)
    if annotation in WORDS:
        return WORDS[annotation]
    if hasattr(annotation, "__metadata__"):  # Annotated
        return kind(inner[0])
    if str(get_origin(annotation)) == "typing.Literal":
        return ", ".join(f"`{plain(v)}`" for v in inner)
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(kind(a) for a in inner if a not in (type(None), msgspec.UnsetType))
    if get_origin(annotation) is dict:
        return f"{kind(inner[1])}, by {kind(inner[0])}"
    if get_origin(annotation) is tuple and inner[-1] is not ...:
        return ", ".join(kind(a) for a in inner)
    if inner:
        return f"list of {kind(inner[0])}"
    return f"`{getattr(annotation, '__name__', annotation)}`"
