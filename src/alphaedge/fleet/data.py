"""What a fleet folder says about its data: how to read more of them, and which edge gets which events."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from alphaedge.errors import AlphaEdgeError, InvalidValue
from alphaedge.fleet.folders import DATA_FILE
from alphaedge.fleet.layout import Fleet
from alphaedge.fleet.tokens import read_token
from alphaedge.toml import merge


@final
class FleetData(NamedTuple):
    """A fleet, and the settings about data of the simulation that it was made from. folder: of the fleet."""

    fleet: Fleet
    data: dict[str, Any]
    folder: Path

    def settings(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """The settings about data, with what is named now; raises ``AlphaEdgeError`` if a file is still missing."""
        found = merge(self.data, overrides)
        if "file" not in found.get("table", {"file": None}):
            raise AlphaEdgeError("fleet: its data came from Python, so name a table with more of them: --table FILE")
        return found

    def pairs(self, places: Sequence[str]) -> list[str]:
        """PLACE=URL for each of the places that has an edge."""
        urls: Mapping[str, str] = self.fleet.urls()
        return [f"{place}={urls[place]}" for place in places if place in urls]

    def tokens(self) -> dict[str, str | None]:
        """The token that each edge asks for, by the name of its place."""
        return {edge.place: read_token(self.folder, edge) for edge in self.fleet.edges}


def open_fleet(folder: Path) -> FleetData:
    """Read the description of a fleet and of its data."""
    fleet, file = Fleet.load(folder), folder / DATA_FILE
    try:
        return FleetData(fleet, tomllib.loads(file.read_text(encoding="utf-8")), folder)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("fleet", str(file), f"the file that `alphaedge fleet init` wrote ({error})") from error
