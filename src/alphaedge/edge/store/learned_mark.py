"""How much feedback the last two checkpoints hold: written by the learner, so that the server knows what to drop."""

from pathlib import Path
from typing import NamedTuple, final

from alphaedge.files import replace_file


@final
class LearnedMark(NamedTuple):
    """Numbers of the last feedback in the newest checkpoint and in the one before it.

    The journal may drop feedback up to ``previous``: the older checkpoint still needs what came later.
    """

    newest: int = 0
    previous: int = 0


def read_learned_mark(folder: Path) -> LearnedMark:
    """Read the mark in an edge's data folder; zeros if there is none yet."""
    try:
        newest, previous = _path(folder).read_text().split()
        return LearnedMark(int(newest), int(previous))
    except (FileNotFoundError, ValueError):
        return LearnedMark()


def write_learned_mark(folder: Path, mark: LearnedMark) -> None:
    """Replace the mark in an edge's data folder."""
    replace_file(_path(folder), f"{mark.newest} {mark.previous}".encode())


def _path(folder: Path) -> Path:
    return folder / "learned"
