"""``make`` finds a Python that will do, and says plainly if there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEW_ENOUGH, TOO_OLD = 0, 1  # what a Python answers when it is asked for its version


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the Makefile and what it depends on, and no Python in its PATH."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(project: Path, name: str, version: int = NEW_ENOUGH) -> Path:
    """Put a Python into the PATH that notes its name when it is to make the virtual environment, and stops there."""
    program = project / "bin" / name
    program.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {version}\necho {name} > chosen\nexit 3\n')
    program.chmod(0o755)
    return program


def make(project: Path, *words: str) -> tuple[str, str]:
    """Run ``make setup``; return the Python that it chose, and what it said."""
    program = shutil.which("make")
    assert program is not None
    done = subprocess.run(
        [program, "setup", *words], cwd=project, env={"PATH": str(project / "bin")}, capture_output=True, text=True
    )
    assert done.returncode != 0, "these Pythons can do nothing"
    chosen = project / "chosen"
    return (chosen.read_text().strip() if chosen.exists() else ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        ({"python3.11": NEW_ENOUGH, "python3.13": NEW_ENOUGH, "python3": NEW_ENOUGH}, "python3.11"),
        ({"python3.13": NEW_ENOUGH, "python3": NEW_ENOUGH}, "python3.13"),
        ({"python3.11": TOO_OLD, "python3.12": NEW_ENOUGH}, "python3.12"),  # a shim of a version that is not there
        ({"python3": NEW_ENOUGH}, "python3"),
        ({"python3": TOO_OLD, "python": NEW_ENOUGH}, "python"),
    ],
)
def test_the_first_python_that_is_new_enough_is_taken(project: Path, installed: dict[str, int], chosen: str) -> None:
    for name, version in installed.items():
        install(project, name, version)
    assert make(project)[0] == chosen


def test_without_a_python_that_is_new_enough_make_says_what_is_needed(project: Path) -> None:
    for found in ({}, {"python3": TOO_OLD}):
        for name, version in found.items():
            install(project, name, version)
        chosen, said = make(project)
        assert chosen == ""
        assert "needs Python 3.11 or newer" in said
        assert "make PYTHON=" in said


def test_a_python_that_is_named_wins_and_is_checked(project: Path) -> None:
    install(project, "python3.11")
    mine = install(project, "mine")
    assert make(project, f"PYTHON={mine}")[0] == "mine"
    (project / "chosen").unlink()
    old = install(project, "old", TOO_OLD)
    chosen, said = make(project, f"PYTHON={old}")
    assert chosen == ""
    assert f"{old}: not found or too old" in said
