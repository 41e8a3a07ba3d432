"""Which data a command is about: the options that say so, and the reading of it."""

from dataclasses import replace
from typing import Annotated, Any, Final

import torch
import typer
from rich.console import Console

from alphaedge.cli.download import fetched
from alphaedge.data.stream import Dataset
from alphaedge.data.table import columns, unused
from alphaedge.errors import InvalidValue
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import make_data

TABLE: Final = "A table of your own"


def option(text: str, *names: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """An option that is not there unless it is given; its text says what holds then."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


def _column(text: str, *names: str) -> Any:
    return option(text, *names, panel=TABLE, metavar="COL")


TableFile = Annotated[str | None, option("A CSV or Parquet file of your own.", panel=TABLE, metavar="FILE")]
Time = Annotated[str | None, _column("Column: when it happened.")]
Edge = Annotated[str | None, _column("Column: where it happened.")]
Label = Annotated[str | None, _column("Column: the outcome.")]
Ids = Annotated[list[str] | None, _column("Column of ids, such as users or items.", "--id")]
Categories = Annotated[list[str] | None, _column("Column of few values.", "--category")]
Numbers = Annotated[list[str] | None, _column("Column of numbers.", "--number")]
Task = Annotated[str | None, option("auto, classify or regress. Default: auto.", panel=TABLE, metavar="TASK")]


def chosen(data: str | None, **table: Any) -> dict[str, Any]:
    """What settings say of data. table: its file and its columns, as the options gave them."""
    named = "table" if table["file"] is not None and data is None else data
    return {"data": named, "table": {name: value or None for name, value in table.items()}}


def check_columns(file: str | None, **needed: str | None) -> None:
    """An error if a table is named without the columns that it takes."""
    if file is None:
        return
    for name, column in needed.items():
        if column is None:
            raise InvalidValue(name, None, f"a column of {file}: " + ", ".join(columns(file)))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was given on the command line."""
    inner = {key: given(value) if isinstance(value, dict) else value for key, value in options.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def complete(settings: Settings, console: Console) -> Settings:
    """Settings whose data is there, downloaded if need be; of a table it is said how it was understood."""
    fetched(settings.data, console)
    settings = settings.resolved()
    if settings.table is not None:
        ignored = ", ".join(unused(settings.table))
        rest = f"; not used: {ignored}" if ignored else ""
        console.print(f"{settings.table.file}: {settings.table.described()}{rest}", highlight=False, markup=False)
    return settings


def loaded(settings: Settings, console: Console) -> Dataset:
    """The events, with the noise in their labels that belongs to the data set, as the simulator has it."""
    settings = complete(settings, console)
    data = make_data(settings, 0)
    streams = list(data.streams)
    for edge, share in data.noise.items():
        labels = streams[edge].labels
        flips = torch.from_numpy(settings.conditions.draw_noise(edge, len(labels), share, 0))
        streams[edge] = replace(streams[edge], labels=torch.where(flips, 1 - labels, labels))
    return replace(data, streams=tuple(streams), noise={})
