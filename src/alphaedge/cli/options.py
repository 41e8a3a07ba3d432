"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from alphaedge.cli.choices import DATA_SETS

TABLE_PANEL: Final = "Your own table"
DATA_HELP: Final = f"Data set: {', '.join(DATA_SETS)}."


def option(text: str, *names: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """Declare an option whose help text says in words what happens without it."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


def _column(text: str, *names: str) -> Any:
    return option(text, *names, panel=TABLE_PANEL, metavar="COL")


TableFile = Annotated[
    str | None,
    option("A CSV or Parquet file, or a pattern such as 'data/*.parquet'.", panel=TABLE_PANEL, metavar="FILE"),
]
Time = Annotated[str | None, _column("Column with the time of an event. Default: a guess.")]
Edge = Annotated[str | None, _column("Column that says on which edge it happened. Default: a guess.")]
Label = Annotated[str | None, _column("Column with the label: what is predicted. Default: a guess.")]
Ids = Annotated[list[str] | None, _column("Column of ids, such as users or items. Repeat for several.", "--id")]
Categories = Annotated[list[str] | None, _column("Column with few values. Repeat for several.", "--category")]
Numbers = Annotated[list[str] | None, _column("Column of numbers. Repeat for several.", "--number")]
Only = Annotated[
    bool,
    typer.Option(
        "--only", help="Learn from the named columns only. Default: the others too.", rich_help_panel=TABLE_PANEL
    ),
]
Last = Annotated[
    str | None,
    _column("Number column with the newest known value of the label; none if there is none. Default: guessed."),
]
Task = Annotated[str | None, option("auto, classify or regress. Default: auto.", panel=TABLE_PANEL, metavar="TASK")]

Rows = Annotated[int | None, option("Use at most this many events, those after the first quarter. Default: all.")]
ConfigFile = Annotated[
    Path | None, option("Settings in TOML; options on the command line win.", "--config", metavar="FILE")
]
JsonFile = Annotated[
    Path | None, option("Write the summary to this file; - prints it and nothing else.", metavar="FILE")
]
_WORK_PANEL: Final = "Where it runs"
Jobs = Annotated[int | None, option("Worker processes. Default: one per core.", panel=_WORK_PANEL)]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(
        help="local: processes of this machine. ray: a Ray cluster (extra ray).",
        rich_help_panel=_WORK_PANEL,
        show_default=True,
    ),
]
Shards = Annotated[
    int,
    typer.Option(
        help="Cut each fleet into so many parts, each in a process of its own.",
        rich_help_panel=_WORK_PANEL,
        show_default=True,
    ),
]
RayAddress = Annotated[
    str | None,
    option(
        "A running Ray cluster, such as auto or 10.0.0.1:6379. Default: a Ray of its own, on this machine.",
        panel=_WORK_PANEL,
        metavar="ADDRESS",
    ),
]

TokenFile = Annotated[Path | None, typer.Option(help="File with the token that the edge asks for.", metavar="FILE")]
Authority = Annotated[
    Path | None,
    typer.Option(help="Certificate of the authority to trust, if this machine does not yet.", metavar="FILE"),
]
