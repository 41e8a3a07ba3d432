"""What docstrings and comments in the code say, as Markdown."""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Collection
from typing import Any

from alphaedge_docs.markdown import fence, table


def fields(documented: Any) -> dict[str, str]:
    """What the docstring of a class says of its fields, as ``name: text`` or ``one, two: text``; else the comment
    behind the field. Of its parents too."""
    if documented is object or not inspect.isclass(documented):
        return {}
    found: dict[str, str] = {}
    for parent in reversed(documented.__mro__[1:]):
        if parent.__module__.startswith("alphaedge."):
            found |= fields(parent)
    names = list(getattr(documented, "__annotations__", {}))
    return found | _comments(documented) | told(inspect.getdoc(documented) or "", names)


def told(text: str, names: Collection[str]) -> dict[str, str]:
    """What a text says of some names.

    >>> told("All of it. size: in bytes. one, two: numbers.", ["size", "one", "two"])
    {'size': 'in bytes.', 'one': 'numbers.', 'two': 'numbers.'}
    """
    found = {}
    for part in _paragraphs(text):
        heads = list(re.finditer(rf"(?:^|(?<=\n)|(?<=[.;)] ))[ ]*({_some(names)}):\s", part)) if names else []
        ends = [*(head.start() for head in heads[1:]), len(part)]
        for head, end in zip(heads, ends, strict=False):
            # What begins with another name in code is of that one.
            said = re.split(rf"(?<=[.]) (?=``{_one(names)}``)", " ".join(part[head.end() : end].split()))[0]
            for name in head[1].replace("`", "").split(", "):
                found[name] = as_markdown(said.rstrip("; "))
    return found


def rest(text: str, names: Collection[str]) -> str:
    """A text without what it says of some names."""
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


def _comments(documented: type) -> dict[str, str]:
    """What stands behind the fields of a class, as a comment."""
    source = textwrap.dedent(inspect.getsource(documented))
    behind = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    return {
        line.target.id: behind[line.end_lineno or line.lineno]
        for line in tree.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.end_lineno in behind
    }


def summary(documented: Any) -> str:
    """The first paragraph of a docstring."""
    return as_markdown((inspect.getdoc(documented) or "").split("\n\n")[0])


def without_fields(documented: Any, names: Collection[str]) -> str:
    """A docstring as Markdown, without the parts that say what fields are."""
    text = re.sub(r"(?m)^Arguments\n-+\n?", "", inspect.getdoc(documented) or "")
    return blocks(rest(text, names))


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
    """A table as docstrings have them: columns are where the first line has its bars."""
    columns = [(m.start(), m.end()) for m in re.finditer("=+", lines[0])]
    rows = [[line[a:].strip() if b == columns[-1][1] else line[a:b].strip() for a, b in columns] for line in lines]
    head, body = rows[1], rows[3:-1]
    return table([as_markdown(c) for c in head], [[as_markdown(c) for c in row] for row in body])


def as_markdown(text: str) -> str:
    """Code in two backticks becomes code in one."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)
