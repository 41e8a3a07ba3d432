"""The mark of how much feedback the last two checkpoints hold, so that the journal knows what it may drop."""

from pathlib import Path


def learned_so_far(folder: Path) -> int:
    """The last lesson that a checkpoint holds."""
    return _marks(folder)[0]


def forgettable(folder: Path) -> int:
    """The last lesson that the checkpoint before the newest holds as well: up to it the journal may forget."""
    return _marks(folder)[1]


def _marks(folder: Path) -> tuple[int, int]:
    try:
        newest, before = (folder / "learned").read_text().split()
        return int(newest), int(before)
    except (FileNotFoundError, ValueError):
        return 0, 0
