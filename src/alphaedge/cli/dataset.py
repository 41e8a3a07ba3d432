"""From a command's options to the data set they mean."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from rich.console import Console
from rich.markup import escape

from alphaedge.cli.download import download
from alphaedge.data.stream import Dataset
from alphaedge.data.table import describe
from alphaedge.errors import AlphaEdgeError
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import make_data

# Columns and task of a table, by the option that names them.
_OPTIONS: Final = {
    "time": "--time",
    "edge": "--edge",
    "label": "--label",
    "ids": "--id",
    "categories": "--category",
    "numbers": "--number",
    "only": "--only",
    "last": "--last",
    "task": "--task",
}


def data_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the settings about data from a command's options, ``typer.Context.params``."""
    file, data = options["table"], options["data"]
    table = {"file": file} | {name: options[name] or None for name in _OPTIONS}
    return {"data": "table" if file is not None and data is None else data, "table": table}


def split_names(text: str | None) -> list[str] | None:
    """The names that an option lists, separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def check_table(settings: dict[str, Any]) -> None:
    """Refuse options about data that do not fit together; takes what ``data_settings`` returns."""
    data = settings.get("data")
    table = {name: value for name, value in (settings.get("table") or {}).items() if value is not None}
    file = table.pop("file", None)
    if file is None:
        if table or data == "table":
            given = ", ".join(_OPTIONS[name] for name in table) or "--data table"
            raise AlphaEdgeError(f"{given}: name the file of the table with --table")
        return
    if data != "table":
        raise AlphaEdgeError(f"--table: takes the place of --data {data}; give one of the two")


def drop_unset(options: dict[str, Any]) -> dict[str, Any]:
    """Keep the options that were given on the command line, in nested groups too."""
    kept = {key: drop_unset(value) if isinstance(value, dict) else value for key, value in options.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def resolve(settings: Settings, console: Console) -> Settings:
    """Download the data if need be and fill in what suits it; prints how a table is read."""
    download(settings.data, console)
    settings = settings.resolved()
    if settings.table is not None:
        for line in describe(settings.table).lines(settings.table.file):
            console.print(line, highlight=False, markup=False)
        every, runs = settings.method.aggregate_every, settings.runs
        pace = f"batches of {settings.size}, an aggregation every {every} batches (E), {runs} runs"
        console.print(f"{settings.table.file}: {pace}", highlight=False, markup=False)
    return settings


def load_dataset(settings: Settings, console: Console) -> Dataset:
    """Load the events of run 0, with the label noise that belongs to the data set, as the simulator draws it."""
    settings = resolve(settings, console)
    data = make_data(settings, 0)
    for note in data.notes:
        console.print(f"[yellow]note[/] {escape(note)}", highlight=False, soft_wrap=True)
    streams = list(data.streams)
    for edge, share in data.noise.items():
        labels = streams[edge].labels
        flips = torch.from_numpy(settings.conditions.draw_noise(edge, len(labels), share, 0))
        streams[edge] = replace(streams[edge], labels=torch.where(flips, data.flip(labels), labels))
    return replace(data, streams=tuple(streams), noise={})
