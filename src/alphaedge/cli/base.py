"""What every command shares: how its help looks, and how an error ends it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from alphaedge.errors import AlphaEdgeError

PLAIN_WIDTH: Final = 120  # columns
EXIT_REFUSED: Final = 2  # a bad value, a missing file or package, an edge that does not answer
_EXTRAS: Final = {
    "ray": "ray",
    "optuna": "tune",
    "nats": "nats",
    "onnx": "onnx",
    "onnxruntime": "onnx",
}  # by the package that it brings
EXIT_INTERRUPTED: Final = 130  # as shells report Ctrl-C


class Command(TyperCommand):
    """A command whose help shows flags without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """List arguments and options, ``--help`` included."""
        return _without_values(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help shows flags without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """List the group's own options, ``--help`` included."""
        params = _without_values(super().get_params(ctx))
        for param in params:
            if getattr(param, "is_flag", False) and param.default is None:
                param.default = False  # typer would import pydantic to convert None, for every command
        return params


def _without_values(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""  # typer prints <bool> otherwise
    return params


def make_app(name: str, text: str) -> typer.Typer:
    """Make an empty group of commands; ``text`` is its help."""
    return typer.Typer(
        name=name,
        help=text,
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
    )


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn an expected error into one line on standard error and exit code 2.

    Expected are AlphaEdge's own errors, files that can't be read or written, and packages that are not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "alphaedge").partition(".")[0] == "alphaedge":
            raise  # a fault of ours, not a missing extra
        extra = _EXTRAS.get((error.name or "").partition(".")[0], "serve")
        reason = f"{error.name} is not installed: pip install 'alphaedge[{extra}]'"
    except AlphaEdgeError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    else:
        return
    typer.echo(f"error {reason}", err=True)
    raise typer.Exit(EXIT_REFUSED)


def plain_width() -> int | None:
    """How wide a table may be: as COLUMNS says, or ``PLAIN_WIDTH``, where there is no terminal to ask."""
    if sys.stdout.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() and int(said) else PLAIN_WIDTH
