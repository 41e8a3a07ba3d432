"""Lines of the code, by the name of what they define."""

import importlib
import inspect
import textwrap
from pathlib import Path

import alphaedge
from alphaedge_docs.markdown import fence

ROOT = Path(alphaedge.__file__).parent.parent


def lines(path: str) -> str:
    """The source of ``package.module.name`` or ``package.module.Class.name``, with its line numbers."""
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
    text, first = inspect.getsourcelines(found)
    file = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
    return fence(textwrap.dedent("".join(text)), "python", f'linenums="{first}" title="src/{file}"')
