"""``alphaedge export``: take along what an edge has learned."""

from pathlib import Path
from typing import Annotated

import typer

from alphaedge.cli.base import exit_on_error
from alphaedge.cli.options import option

EXAMPLES = """[bold]Examples[/]

alphaedge export results/mine --edge berlin --out berlin-model

alphaedge export results/mine --edge berlin --out berlin-model --onnx

alphaedge export fleet/berlin --out berlin-model
"""


def export(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder of `alphaedge simulate --out` or `alphaedge fleet init`, or that of an edge.",
            metavar="DIR",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to make.", metavar="DIR")],
    edge: Annotated[str | None, option("The region, where the folder has several.", metavar="NAME")] = None,
    onnx: Annotated[
        bool,
        typer.Option(
            "--onnx", help="Also write model.onnx, which takes the values of ids as text. From a results folder only."
        ),
    ] = False,
    model: Annotated[
        str | None,
        option("Your own model, if the simulation was given one.", metavar="MODULE:FACTORY"),
    ] = None,
) -> None:
    """Write the model that a region predicts with to a folder, for other programs.

    model.safetensors has all numbers, description.json says what they mean and how to feed the model. With --onnx,
    a few predictions are compared with those of onnxruntime before anything is written. In Python, `alphaedge.load`
    reads the folder.
    """
    with exit_on_error():
        from alphaedge.fleet.export import export as write

        snapshot = write(source, out, edge, model=model, onnx=onnx)
        for file in sorted(out.iterdir()):
            typer.echo(f"{file}: {file.stat().st_size:,} bytes")
        rows = ", ".join(f"{len(keys):,} of {name}" for name, keys in snapshot.keys.items())
        typer.echo(f"{snapshot.edge}: {snapshot.config.task}" + (f", rows: {rows}" if rows else ""))
