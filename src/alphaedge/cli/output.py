"""Where a command writes: a folder of results and a JSON file, ``-`` for standard output."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from alphaedge.errors import InvalidValue
from alphaedge.simulation.results import writable


def prints_json(json: Path | None) -> bool:
    """Tell whether JSON goes to standard output, so that everything else must not."""
    return str(json) == "-"


def check_writable(out: Path | None, json: Path | None) -> None:
    """Refuse, before any work, a folder or a file that can't be written."""
    if out is not None:
        writable(out)
    if json is not None and not prints_json(json):
        writable(json.parent)
        if json.is_dir():
            raise InvalidValue("json", str(json), "a file, or - to print")


def write_json(value: Any, json: Path) -> None:
    """Write a value as indented JSON to a file or to standard output."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    if prints_json(json):
        sys.stdout.write(text.decode() + "\n")
    else:
        json.write_bytes(text)
