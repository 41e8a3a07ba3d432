"""A hash of the source code that scores depend on, so that a finished cell is reused only by the code that made it."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1]
# Files of the package that a score can depend on. Pages and figures are left out: they only show scores.
SOURCES: Final = (
    "*.py",
    "attacks/**/*.py",
    "core/**/*.py",
    "data/**/*.py",
    "models/**/*.py",
    "simulation/**/*.py",
    "experiments/baselines.py",
    "experiments/cell.py",
    "experiments/run_cells.py",
    "experiments/source_hash.py",
)


def source_files(package: Path = PACKAGE) -> list[Path]:
    """List every Python file that a score can depend on, in a fixed order."""
    return sorted({file for pattern in SOURCES for file in package.glob(pattern)})


@cache
def source_hash(package: Path = PACKAGE) -> str:
    """Hash the names and contents of ``source_files``."""
    digest = hashlib.sha256()
    for file in source_files(package):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
