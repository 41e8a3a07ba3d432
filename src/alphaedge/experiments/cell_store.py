"""A folder of finished cells, one JSON file per cell."""

from pathlib import Path
from typing import final

import msgspec

from alphaedge.experiments.cell import CellResult, Runnable
from alphaedge.files import replace_file


@final
class CellStore:
    """Keeps cell results on disk, so that an interrupted evaluation can resume."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, cell: Runnable) -> CellResult | None:
        """Read the result of a cell. None if the cell is not finished, or its file is damaged."""
        try:
            return msgspec.json.decode(self._path(cell).read_bytes(), type=CellResult)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def put(self, cell: Runnable, result: CellResult) -> None:
        """Write the result of a cell."""
        replace_file(self._path(cell), msgspec.json.format(msgspec.json.encode(result), indent=1))

    def _path(self, cell: Runnable) -> Path:
        return self.folder / f"{cell.key()}.json"
