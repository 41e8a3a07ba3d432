"""Docstrings of this project for mkdocstrings, which renders the Python reference.

Docstrings here describe arguments as ``name: text`` and hold doctests and reST tables. This extension of Griffe turns
them into the Google style and Markdown that mkdocstrings reads, while the site is built.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import griffe

from tools.reference import docstrings
from tools.reference.markdown import sentence

MAX_DEFAULT: Final = 40  # characters of a default that is shown


class ProjectDocstrings(griffe.Extension):
    """Rewrite all docstrings of a package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings once the package is loaded."""
        self._rewrite(pkg)

    def _rewrite(self, documented: griffe.Object) -> None:
        for member in documented.members.values():
            if isinstance(member, griffe.Object):
                self._rewrite(member)
        if documented.docstring is not None:
            documented.docstring.value = _rewritten(documented, documented.docstring.value)


def _rewritten(documented: griffe.Object, text: str) -> str:
    """A docstring that describes the arguments of a function, or the attributes and arguments of a class."""
    if isinstance(documented, griffe.Function):
        return as_google(text, [p.name for p in documented.parameters])
    if not isinstance(documented, griffe.Class):
        return as_google(text)
    members = {name: one for name, one in documented.members.items() if isinstance(one, griffe.Attribute)}
    signature = "dataclass" in documented.labels  # shows the defaults already
    fields = {name: "" if signature or one.value is None else str(one.value) for name, one in members.items()}
    init = documented.members.get("__init__")
    arguments = [p.name for p in init.parameters] if isinstance(init, griffe.Function) else []
    comments = docstrings.field_comments(documented.source)
    return as_google(text, [name for name in arguments if name not in fields], fields, comments)


def as_google(
    text: str, arguments: Sequence[str] = (), fields: Mapping[str, str] = {}, comments: Mapping[str, str] = {}
) -> str:
    """A docstring in Google style, as Markdown.

    fields: the attributes of a class with their defaults. comments: descriptions of fields that the docstring lacks.

    >>> print(as_google("Sum. size: in bytes, or ``None``.", ["size"]))
    Sum.
    <BLANKLINE>
    Args:
        size: In bytes, or `None`.
    """
    text = re.sub(r"(?m)^Arguments\n-+\n", "", text)
    described = docstrings.describe_names(text, [*arguments, *fields])
    parts = [docstrings.blocks(docstrings.without_names(text, list(described))).strip("\n")]
    described = {**comments, **described}
    for title, names in (("Args", arguments), ("Attributes", list(fields))):
        lines = [
            f"    {name}: {sentence(described[name])}{_default(fields.get(name))}"
            for name in names
            if name in described
        ]
        if lines:
            parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(parts)


def _default(value: str | None) -> str:
    return f" Default: `{value}`." if value and len(value) <= MAX_DEFAULT else ""
