"""From a command's options to the data set they mean."""

from dataclasses import replace
from typing import Any

import torch
from rich.console import Console

from alphaedge.cli.download import download
from alphaedge.data.stream import Dataset
from alphaedge.data.table import columns, unused
from alphaedge.errors import AlphaEdgeError
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import make_data


def data_settings(data: str | None, **table: Any) -> dict[str, Any]:
    """Collect the settings about data; ``table`` is the table's file and columns as the options give them."""
    name = "table" if table["file"] is not None and data is None else data
    return {"data": name, "table": {key: value or None for key, value in table.items()}}


def check_columns(file: str | None, **required: str | None) -> None:
    """Refuse a table whose required columns are not named; the error lists those that it has."""
    missing = [f"--{name}" for name, column in required.items() if column is None]
    if file is not None and missing:
        raise AlphaEdgeError(
            f"table {file}: name a column with {' and '.join(missing)}; it has {', '.join(columns(file))}"
        )


def drop_unset(options: dict[str, Any]) -> dict[str, Any]:
    """Keep the options that were given on the command line, in nested groups too."""
    kept = {key: drop_unset(value) if isinstance(value, dict) else value for key, value in options.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def resolve(settings: Settings, console: Console) -> Settings:
    """Download the data if need be and fill in what suits it; prints how a table is read."""
    download(settings.data, console)
    settings = settings.resolved()
    if settings.table is not None:
        ignored = ", ".join(unused(settings.table))
        rest = f"; not used: {ignored}" if ignored else ""
        console.print(f"{settings.table.file}: {settings.table.described()}{rest}", highlight=False, markup=False)
    return settings


def load_dataset(settings: Settings, console: Console) -> Dataset:
    """Load the events of run 0, with the label noise that belongs to the data set, as the simulator draws it."""
    settings = resolve(settings, console)
    data = make_data(settings, 0)
    streams = list(data.streams)
    for edge, share in data.noise.items():
        labels = streams[edge].labels
        flips = torch.from_numpy(settings.conditions.draw_noise(edge, len(labels), share, 0))
        streams[edge] = replace(streams[edge], labels=torch.where(flips, data.flip(labels), labels))
    return replace(data, streams=tuple(streams), noise={})
