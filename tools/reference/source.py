"""Excerpts of the source code, by the name of what they define."""

import importlib
import inspect
import textwrap
from pathlib import Path
from typing import Any

import alphaedge
from tools.reference.markdown import fence

SOURCE = Path(alphaedge.__file__).parent.parent


def section(path: str) -> str:
    """The source of ``package.module.name`` or ``package.module.Class.name``, titled with its file."""
    module, names = path, list[str]()
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
    target: Any = found
    for name in names:
        target = getattr(target, name)
    target = inspect.unwrap(target)  # a decorator may be from elsewhere
    file = Path(inspect.getsourcefile(target) or "").relative_to(SOURCE)
    return fence(textwrap.dedent(inspect.getsource(target)), "python", f'title="src/{file}"')
