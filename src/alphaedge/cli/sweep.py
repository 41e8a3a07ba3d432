"""``alphaedge sweep``: compare methods at every point of a grid of settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from alphaedge.cli import options
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.choices import METHODS
from alphaedge.cli.options import DATA_HELP, option
from alphaedge.errors import InvalidValue

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = """[bold]Examples[/]

alphaedge sweep --data airquality --set aggregate_every=2,5,20 --set peers=2,5 --seeds 3

alphaedge sweep --set conditions.drop=0,0.25,0.5 --methods alphaedge,fedweight --out results/drop

alphaedge sweep --set rate=0.001,0.003 --set local_steps=1,10 --together

alphaedge sweep --config results/first/config.toml --set weight_rate=0.05,0.2,0.5 --resume

alphaedge sweep --data movielens --set id_rate=0.05,0.1,0.2 --engine ray --ray-address auto
"""


def sweep(
    context: typer.Context,
    variations: Annotated[
        list[str] | None,
        option("A setting of the configuration file, and its values. Repeat for several.", "--set", metavar="KEY=V,V"),
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="Take the first values of all settings, then the second: a list, no grid."),
    ] = False,
    data: Annotated[str | None, option(f"{DATA_HELP} Default: synthetic.")] = None,
    table: options.TableFile = None,
    time: options.Time = None,
    edge: options.Edge = None,
    label: options.Label = None,
    ids: options.Ids = None,
    categories: options.Categories = None,
    numbers: options.Numbers = None,
    only: options.Only = False,
    last: options.Last = None,
    task: options.Task = None,
    rows: options.Rows = None,
    methods: Annotated[
        str | None,
        option(
            f"Methods, separated by commas: {', '.join(METHODS)}; or your own. "
            "Default: alphaedge,noagg, or what --config says.",
            metavar="NAME,...",
        ),
    ] = None,
    seeds: Annotated[int | None, option("Runs of each point and method. Default: 3, or what --config says.")] = None,
    config_file: options.ConfigFile = None,
    resume: Annotated[bool, typer.Option("--resume", help="Reuse the finished cells in --out.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the table, the picture and finished cells.", metavar="DIR")
    ] = Path("results/sweep"),
    json: options.JsonFile = None,
    jobs: options.Jobs = None,
    engine: options.Engine = "local",
    ray_address: options.RayAddress = None,
) -> None:
    """Compare methods at every point of a grid of settings: one tidy Parquet file, and a picture."""
    from rich.console import Console

    from alphaedge.cli import dataset
    from alphaedge.cli.output import check_writable, prints_json, write_json
    from alphaedge.cli.progress import with_cells
    from alphaedge.cli.workers import open_workers
    from alphaedge.experiments.cell_store import CellStore
    from alphaedge.experiments.grid import parse_variations, points
    from alphaedge.experiments.sweep import Sweep, save, summary
    from alphaedge.simulation import config

    console = Console(stderr=prints_json(json))
    with exit_on_error():
        given = dataset.drop_unset(
            dataset.data_settings(context.params)
            | {
                "rows": rows,
                "methods": dataset.split_names(methods),
                "seeds": seeds,
            }
        )
        if config_file is None:
            dataset.check_table(given)
            given = {"methods": ["alphaedge", "noagg"], "seeds": 3} | given
        if not variations:
            raise InvalidValue("set", "nothing", "at least one KEY=VALUE,VALUE,...")
        check_writable(out, json)
        if not resume and any((out / "cells").glob("*.json")):
            raise InvalidValue("out", str(out), "a folder without finished cells, or --resume to reuse them")
        base = config.read(config_file, given) if config_file else given
        whole = Sweep(base, points(parse_variations(variations), together=together))
        dataset.resolve(whole.settings[0], console)
        store, interrupted = CellStore(out / "cells"), False
        try:
            with open_workers(engine, ray_address, jobs) as workers:
                with_cells(console, lambda report: whole.run(store, workers=workers, report=report))
        except KeyboardInterrupt:
            interrupted = True
        results = whole.results(store)
        save(whole, results, out)
        found = summary(results)
        if json is not None:
            write_json(found, json)
    if not prints_json(json):
        console.print(_table(found))
    if interrupted:
        console.print(f"[yellow]Interrupted[/]: finished cells are in {out}; continue with --resume.")
        raise typer.Exit(EXIT_INTERRUPTED)
    console.print(f"Results in {out} (open {out / 'sweep.png'})", highlight=False, markup=False, soft_wrap=True)


def _table(found: list[dict[str, Any]]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    keys = [key for key in (found[0]["settings"] if found else ()) if len({str(f["settings"][key]) for f in found}) > 1]
    for column in (*keys, "method", "score", "seconds"):
        justify: Literal["left", "right"] = "left" if column == "method" else "right"
        table.add_column(column.rpartition(".")[2], justify=justify, no_wrap=column == "score")
    best = max((entry["mean"] for entry in found if entry["mean"] is not None), default=None)
    for entry in found:
        interval = f" ± {entry['ci95']:.4f}" if entry["ci95"] is not None else ""
        score = f"{entry['mean']:.4f}{interval}" if entry["mean"] is not None else "; ".join(entry["notes"]) or "-"
        score = f"[bold]{score}[/]" if entry["mean"] == best and best is not None else score
        values = [str(entry["settings"][key]) for key in keys]
        table.add_row(*values, entry["method"], score, f"{entry['seconds']:.1f}")
    return table
