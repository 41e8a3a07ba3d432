"""The command line: every command, argument and option."""

import inspect
import re
import typing
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any, Final

import typer

from alphaedge.cli import app
from alphaedge_docs.markdown import anchored, fence, kind, plain, table

# What every command has, and what typer adds to all programs.
COMMON: Final = {"--help", "--install-completion", "--show-completion"}


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, by their words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def reference() -> str:
    """A section for each command."""
    whole = typer.main.get_command(app)
    made = []
    for path, command in walk(whole):
        made.append(_section(path, command))
    return "\n".join(made)


def _section(path: tuple[str, ...], command: Any) -> str:
    words = " ".join(["alphaedge", *path])
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and not _common(p)]
    usage = " ".join([words, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    made = [f"## `{words}` {{ #command-{'-'.join(path)} }}\n", _plain(inspect.cleandoc(command.help or "")) + "\n"]
    made.append(fence(usage, "text"))
    if arguments:
        made.append(table(("argument", "default", "meaning"), [_argument(p, path) for p in arguments]))
    hints = typing.get_type_hints(command.callback)
    for panel in dict.fromkeys(["", *map(_panel, options)]):
        rows = [_option(p, path, hints[p.name]) for p in options if _panel(p) == panel]
        if not rows:
            continue
        made.append((f"{panel}:\n\n" if panel else "") + table(("option", "value", "default", "meaning"), rows))
    made.append(_epilog(command.epilog or "", words))
    return "\n".join(made)


def _common(option: Any) -> bool:
    return bool(COMMON & set(option.opts))


def _panel(option: Any) -> str:
    return option.rich_help_panel if isinstance(option.rich_help_panel, str) else ""


def _bare(argument: Any) -> str:
    return str(argument.metavar or argument.name).strip("[].").upper()


def _usage(argument: Any) -> str:
    name = _bare(argument) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _argument(argument: Any, path: tuple[str, ...]) -> tuple[str, str, str]:
    name = anchored("argument", f"{'-'.join(path)}-{argument.name}", _bare(argument))
    return name, _default(argument), _plain(argument.help or "")


def _option(option: Any, path: tuple[str, ...], annotation: Any) -> tuple[str, str, str, str]:
    names = ", ".join(
        anchored("option", f"{'-'.join(path)}{name}", name) for name in [*option.opts, *option.secondary_opts]
    )
    value = "" if option.is_flag else f"`{option.metavar}`" if option.metavar else _kind(annotation)
    text, _, said = _plain(option.help or "").partition("Default: ")  # where the help says it in words
    return names, value, said.rstrip(".") or _default(option), text


def _kind(annotation: Any) -> str:
    for one in (annotation, *typing.get_args(annotation)):
        if isinstance(one, EnumType):
            return ", ".join(f"`{member.value}`" for member in one)  # type: ignore[var-annotated]
    return kind(annotation)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    found = parameter.default
    if found is None or found is False:
        return ""
    return f"`{found if isinstance(found, str | Path) else plain(found)}`"


def _epilog(text: str, words: str) -> str:
    """Examples and the like, which are written for the terminal; of those for several commands the command's own."""
    made = []
    for part in re.split(r"(?m)^\[bold\]", text)[1:]:
        title, _, body = part.partition("[/]")
        lines = [line for line in _plain(body).splitlines() if line.strip()]
        if lines and lines[0].startswith("alphaedge "):
            lines = [line for line in lines if f"{line} ".startswith(f"{words} ")]
            made.append(f"{title}:\n\n" + fence("\n".join(lines), "sh"))
        else:
            made.append(f"{title}: {' '.join(lines).strip()}\n")
    return "\n".join(made)


def _plain(text: str) -> str:
    """Without rich's markup."""
    return re.sub(r"(?<!\\)\[(?:/|/?(?:bold|dim|italic))\]", "", text).replace("\\[", "[")
