"""``alphaedge tune``: find settings for a data set or a table of one's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from alphaedge.cli import options
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.options import DATA_HELP, option
from alphaedge.errors import InvalidValue, check_number

EXAMPLES = """[bold]Examples[/]

alphaedge tune --data airquality --budget 10m

alphaedge tune --table sales.csv --time day --edge shop --label sold --id item --number price --out results/sales

alphaedge simulate --config results/sales/config.toml

alphaedge tune --data movielens --vary rate,id_rate --trials 40 --resume
"""


def tune(
    context: typer.Context,
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
    method: Annotated[
        str | None,
        option("The method to find settings for. Default: alphaedge, or what --config says.", metavar="NAME"),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="Time for the search, such as 90s, 10m or 2h.", metavar="DURATION")
    ] = "10m",
    trials: Annotated[int | None, option("At most this many trials. Default: as many as the time allows.")] = None,
    part: Annotated[
        float, typer.Option(help="Share of the events to search on, the earliest; the rest is for the report.")
    ] = 0.25,
    vary: Annotated[
        str | None,
        option("Settings to vary, separated by commas, such as rate,local_steps. Default: all.", metavar="KEY,..."),
    ] = None,
    config_file: options.ConfigFile = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search in --out.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the settings, the trials and the picture.", metavar="DIR")
    ] = Path("results/tune"),
    json: options.JsonFile = None,
    jobs: options.Jobs = None,
    engine: options.Engine = "local",
    ray_address: options.RayAddress = None,
) -> None:
    """Find settings: search on the first part of the stream, and report on the rest what they are worth."""
    from time import monotonic

    from rich.console import Console

    from alphaedge.cli import dataset
    from alphaedge.cli.output import check_writable, prints_json, write_json
    from alphaedge.cli.progress import with_phases
    from alphaedge.cli.workers import open_workers
    from alphaedge.replay.options import parse_duration
    from alphaedge.simulation import config
    from alphaedge.tuning.output import JOURNAL, save, summary
    from alphaedge.tuning.tune import Tuning

    console = Console(stderr=prints_json(json))
    with exit_on_error():
        chosen = {"rows": rows, "methods": [method] if method is not None else None}
        given = dataset.drop_unset(dataset.data_settings(context.params) | chosen)
        if config_file is None:
            dataset.check_table(given)
            given = {"methods": ["alphaedge"]} | given
        if trials is not None:
            check_number("trials", trials, low=1, whole=True)
        seconds = parse_duration("budget", budget)
        check_number("budget", seconds, above=0)
        check_writable(out, json)
        journal = out / JOURNAL
        if journal.exists() and not resume:
            raise InvalidValue("out", str(out), "a folder without a search, or --resume to go on with it")
        settings = config.load(config_file, given) if config_file else config.build(given)
        settings = dataset.resolve(settings, console)
        out.mkdir(parents=True, exist_ok=True)
        try:
            with open_workers(engine, ray_address, jobs) as workers:
                tuning = Tuning(settings, workers, part=part, vary=dataset.split_names(vary) or ())
                console.print("Searching over " + ", ".join(k.key for k in tuning.knobs) + ".", highlight=False)
                tuned = with_phases(
                    console,
                    lambda report: tuning.run(journal, budget=seconds, trials=trials, clock=monotonic, report=report),
                )
        except KeyboardInterrupt:
            console.print(f"[yellow]Interrupted[/]: finished trials are in {out}; continue with --resume.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        save(tuned, out)
        found = summary(tuned)
        if json is not None:
            write_json(found, json)
    if not prints_json(json):
        _print(found, console)
    console.print(f"Results in {out} (open {out / 'tune.png'})", highlight=False, markup=False, soft_wrap=True)
    own = f" --methods {tuned.method}" if ":" in tuned.method else ""  # no import path is taken from a results folder
    again = f"alphaedge simulate --config {out / 'config.toml'}{own}"
    console.print(f"Use them: {again}", highlight=False, markup=False, soft_wrap=True)


def _print(found: dict[str, Any], console: Any) -> None:
    rest, part = found["on_rest"], found["on_part"]
    console.print(f"{found['trials']} trials, {found['pruned']} of them pruned.", highlight=False)
    if not found["values"]:
        text = f"The defaults stay: nothing was clearly better on the first {found['part']:.0%} of the events."
        console.print(f"{text} They score {_show(rest['defaults'])} on the rest.", highlight=False, soft_wrap=True)
        return
    for key, value in found["values"].items():
        console.print(f"  {key} = {value:.4g}" if isinstance(value, float) else f"  {key} = {value}", highlight=False)
    interval = f" ± {found['gain_ci95']:.4f}" if found["gain_ci95"] is not None else ""
    gain = f", gain {found['gain']:+.4f}{interval}" if found["gain"] is not None else ""
    console.print(
        f"On the first {found['part']:.0%}: {_show(part['tuned'])}, defaults {_show(part['defaults'])}. On the rest: "
        f"[bold]{_show(rest['tuned'])}[/], defaults {_show(rest['defaults'])}{gain}.",
        highlight=False,
        soft_wrap=True,
    )
    pulled = f"{found['times_bytes']:.2g} times the bytes and " if found["times_bytes"] is not None else ""
    console.print(
        f"It takes {pulled}{found['times_seconds']:.2g} times the computing of the defaults.", highlight=False
    )


def _show(score: float | None) -> str:
    return "no score" if score is None else f"{score:.4f}"
