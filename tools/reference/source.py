"""Excerpts of the source code, by the name of what they define."""

import importlib
import inspect
import textwrap
from pathlib import Path

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
    for name in names:
        found = getattr(found, name)
    found = inspect.unwrap(found)  # a decorator may be from elsewhere
    file = Path(inspect.getsourcefile(found) or "").relative_to(SOURCE)
    return fence(textwrap.dedent(inspect.getsource(found)), "python", f'title="src/{file}"')
