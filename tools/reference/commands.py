"""Every command of the command line, with its arguments and options."""

import inspect
import re
import typing
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any, Final

import typer

from alphaedge.cli import app
from tools.reference.markdown import fence, table, toml_value, type_name

# Options of every command, and those that typer adds to a program.
COMMON: Final = {"--help", "--install-completion", "--show-completion"}


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that can be run, each with its words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def section() -> str:
    """A heading, usage, tables and examples for each command."""
    return "\n".join(_command(path, command) for path, command in walk(typer.main.get_command(app)))


def _command(path: tuple[str, ...], command: Any) -> str:
    words = " ".join(["alphaedge", *path])
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and not _common(p)]
    usage = " ".join([words, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    made = [f"## `{words}`\n", _plain(inspect.cleandoc(command.help or "")) + "\n"]
    made.append(fence(usage, "text"))
    if arguments:
        made.append(table(("argument", "default", "meaning"), [_argument(p) for p in arguments]))
    hints = typing.get_type_hints(command.callback)
    for panel in dict.fromkeys(["", *map(_panel, options)]):
        rows = [_option(p, hints[p.name]) for p in options if _panel(p) == panel]
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


def _argument(argument: Any) -> tuple[str, str, str]:
    return f"`{_bare(argument)}`", _default(argument), _plain(argument.help or "")


def _option(option: Any, annotation: Any) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f"`{option.metavar}`" if option.metavar else _value(annotation)
    text, _, default = _plain(option.help or "").partition("Default: ")  # some defaults are described in words
    return names, value, default.rstrip(".") or _default(option), text


def _value(annotation: Any) -> str:
    for one in (annotation, *typing.get_args(annotation)):
        if isinstance(one, EnumType):
            return ", ".join(f"`{member.value}`" for member in one)  # type: ignore[var-annotated]
    return type_name(annotation)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False:
        return ""
    return f"`{default if isinstance(default, str | Path) else toml_value(default)}`"


def _epilog(text: str, words: str) -> str:
    """The examples below a command's help. An epilog that several commands share keeps this command's examples."""
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
    """Remove rich's markup."""
    return re.sub(r"(?<!\\)\[(?:/|/?(?:bold|dim|italic))\]", "", text).replace("\\[", "[")
