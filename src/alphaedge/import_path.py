"""Import paths, ``package.module:name``: how a configuration names code of the operator's own.

An import path runs code. It may come from a configuration file that the operator wrote or from an argument, never from
a checkpoint, a results folder or a peer.
"""

import importlib
import inspect
import re
from typing import Any, Final

from alphaedge.errors import InvalidValue

PATTERN: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_import_path(text: str) -> bool:
    """Whether a text looks like ``package.module:name``."""
    return ":" in text


def load_object(field: str, path: str) -> Any:
    """The object that an import path names.

    >>> load_object("model.factory", "collections:OrderedDict").__name__
    'OrderedDict'
    """
    if not PATTERN.fullmatch(path):
        raise InvalidValue(field, path, "an import path, package.module:name")
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidValue(field, path, f"something that can be imported ({error})") from error
    return found


def make_object(field: str, path: str) -> Any:
    """What an import path names, called without arguments if it is a class or a function."""
    found = load_object(field, path)
    if not isinstance(found, type) and not callable(found):
        return found
    try:
        return found()
    except TypeError as error:
        raise InvalidValue(field, path, f"something that can be called without arguments ({error})") from error


def source_of(path: str) -> str:
    """The source of the module that an import path names; that of what it imports in turn is not looked at."""
    name = path.rpartition("=")[2].partition(":")[0]
    try:
        return inspect.getsource(importlib.import_module(name))
    except (ImportError, OSError, TypeError) as error:
        raise InvalidValue("import path", path, f"a module whose source can be read ({error})") from error
