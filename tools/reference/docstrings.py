"""Docstrings and comments of the code as Markdown.

Docstrings describe arguments and fields as ``name: text`` or ``one, two: text``, on a line or after a full stop. A
paragraph may follow, and so may tables and examples.
"""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Collection
from typing import Any

from tools.reference.markdown import fence, table


def describe_fields(documented: Any) -> dict[str, str]:
    """The description of each field of a class: from its docstring, or from the comment behind the field.

    Fields of parent classes are included.
    """
    if documented is object or not inspect.isclass(documented):
        return {}
    described: dict[str, str] = {}
    for parent in reversed(documented.__mro__[1:]):
        if parent.__module__.startswith("alphaedge."):
            described |= describe_fields(parent)
    names = list(getattr(documented, "__annotations__", {}))
    comments = field_comments(inspect.getsource(documented))
    return described | comments | describe_names(inspect.getdoc(documented) or "", names)


def describe_names(text: str, names: Collection[str]) -> dict[str, str]:
    """The description of each name in a docstring.

    >>> describe_names("All of it. size: in bytes. one, two: numbers.", ["size", "one", "two"])
    {'size': 'in bytes.', 'one': 'numbers.', 'two': 'numbers.'}
    """
    described = {}
    for part in _paragraphs(text):
        heads = list(re.finditer(rf"(?:^|(?<=\n)|(?<=[.;)] ))[ ]*({_some(names)}):\s", part)) if names else []
        ends = [*(head.start() for head in heads[1:]), len(part)]
        for head, end in zip(heads, ends, strict=False):
            # A sentence that begins with another name in code describes that one.
            words = re.split(rf"(?<=[.]) (?=``{_one(names)}``)", " ".join(part[head.end() : end].split()))[0]
            for name in head[1].replace("`", "").split(", "):
                described[name] = as_markdown(words.rstrip("; "))
    return described


def without_names(text: str, names: Collection[str]) -> str:
    """A docstring without the descriptions of some names.

    >>> without_names("All of it. size: in bytes. one, two: numbers.", ["size", "one", "two"])
    'All of it.'
    """
    if not names:
        return text
    cut = re.compile(rf"(?:^|(?<=\n)|(?<=[.;)] ))[ ]*{_some(names)}:\s.*", re.DOTALL)
    parts = [part if part.startswith(">>>") else cut.sub("", part).rstrip() for part in re.split(r"\n{2,}", text)]
    return "\n\n".join(part for part in parts if part)


def _paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n{2,}", text) if not part.startswith(">>>")]


def _one(names: Collection[str]) -> str:
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


def _some(names: Collection[str]) -> str:
    one = f"(?:``)?{_one(names)}(?:``)?"
    return f"{one}(?:, {one})*"


def field_comments(source: str) -> dict[str, str]:
    """The comment behind each field of a class, from its source."""
    source = textwrap.dedent(source)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    return {
        line.target.id: comments[line.end_lineno or line.lineno]
        for line in tree.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.end_lineno in comments
    }


def summary(documented: Any) -> str:
    """The first paragraph of a docstring."""
    return as_markdown((inspect.getdoc(documented) or "").split("\n\n")[0])


def blocks(text: str) -> str:
    """Paragraphs, tables, examples for the interpreter and indented code of a docstring as Markdown."""
    made = []
    for part in re.split(r"\n{2,}", text.strip("\n")):
        if part.startswith(">>> "):
            made.append(fence(part, "pycon"))
        elif part.startswith("    "):
            made.append(fence(textwrap.dedent(part), "python"))
        elif part.startswith("==="):
            made.append(_table(part.splitlines()))
        elif part.strip():
            made.append(as_markdown(part) + "\n")
    return "\n".join(made)


def _table(lines: list[str]) -> str:
    """A reST table; its first line of bars shows where the columns are."""
    columns = [(m.start(), m.end()) for m in re.finditer("=+", lines[0])]
    rows = [[line[a:].strip() if b == columns[-1][1] else line[a:b].strip() for a, b in columns] for line in lines]
    head, body = rows[1], rows[3:-1]
    return table([as_markdown(c) for c in head], [[as_markdown(c) for c in row] for row in body])


def as_markdown(text: str) -> str:
    """Turn code in double backticks into code in single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)
