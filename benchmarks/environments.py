"""Virtual environments of other software: made on first use in a cache folder, with pinned versions, then kept."""

import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MESSAGE_LINES: Final = 3  # of pip's errors, where an installation fails


class SetUpError(Exception):
    """An environment could not be made; the message is pip's."""


def find(folder: Path, packages: Sequence[str]) -> Path | None:
    """Return the Python of a finished environment with these packages; None if there is none."""
    done = folder / "complete"
    return _python(folder) if done.is_file() and done.read_text(encoding="utf-8").split() == [*packages] else None


def make(folder: Path, packages: Sequence[str]) -> Path:
    """Return the Python of an environment with these packages, after installing them if necessary."""
    found = find(folder, packages)
    if found is not None:
        return found
    venv.create(folder, with_pip=True, clear=True)
    command = [str(_python(folder)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *packages]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SetUpError(reason(done.stdout))
    (folder / "complete").write_text("\n".join(packages) + "\n", encoding="utf-8")
    return _python(folder)


def reason(output: str) -> str:
    """Return what pip says about why it failed.

    >>> reason("WARNING: slow\\nERROR: no such version\\n")
    'no such version'
    """
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line.strip().removeprefix("ERROR: ") for line in lines if "error" in line.lower()]
    return "\n".join((errors or lines)[:MESSAGE_LINES])


def versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of packages, given as requirements."""
    names = [package.partition("=")[0].partition("<")[0].partition("[")[0] for package in packages]
    code = "import importlib.metadata as m, sys; print(*(m.version(n) for n in sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *names], stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(names, done.stdout.split(), strict=True))


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"
