"""The layers of imports, from the contracts that ``make layers`` checks (``[tool.importlinter]`` in pyproject.toml)."""

import tomllib
from pathlib import Path
from typing import Final

from tools.reference.markdown import fence

FILE: Final = Path(__file__).parent.parent.parent / "pyproject.toml"


def section(package: str) -> str:
    """The layers inside a package, top first. Parts on one line do not import each other."""
    contracts = tomllib.loads(FILE.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c.get("containers") == [package]]
    return fence("\n".join(layers), "text")
