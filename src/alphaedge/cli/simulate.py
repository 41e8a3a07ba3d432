"""``alphaedge simulate``: run several methods on the same simulated edges and compare them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from alphaedge.cli import options
from alphaedge.cli.base import EXIT_INTERRUPTED, exit_on_error
from alphaedge.cli.choices import ATTACKS, METHODS
from alphaedge.cli.options import DATA_HELP, option
from alphaedge.errors import InvalidValue

EXAMPLES = """[bold]Examples[/]

alphaedge simulate

alphaedge simulate --methods alphaedge,noagg --seeds 5 --out results/first

alphaedge simulate --adversaries 0.25 --drop 0.25 --delay 5

alphaedge simulate --attack random-model --adversaries 0.25

alphaedge simulate --data movielens --methods alphaedge,noagg

alphaedge simulate --table sales.csv --time day --edge shop --label sold --id item --number price

alphaedge simulate --config results/first/config.toml --json again.json

alphaedge simulate --methods alphaedge,median=mypackage.rules:median

alphaedge simulate --edges 10000 --methods alphaedge,noagg --out results/large --resume

alphaedge simulate --seeds 20 --engine ray --ray-address auto

alphaedge simulate --edges 10000 --shards 4 --out results/large

alphaedge simulate --edges 1000 --memory 4G --methods alphaedge,noagg

alphaedge simulate --private --epsilon 8 --private-user user --private-ids item --methods alphaedge,noagg
"""
_METHOD: Final = "Method"
_CONDITIONS: Final = "Conditions"
_PRIVACY: Final = "Privacy"
EPSILON: Final = 8.0
KEPT_METHOD: Final = "alphaedge"
TABLE_METHODS: Final = ("alphaedge", "fedweight", "noagg")  # what a verdict needs, and the best-known rival


def simulate(
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
    model: Annotated[
        str | None, option("Model, such as mlp or change for airquality. Default: the data set's.")
    ] = None,
    rows: options.Rows = None,
    methods: Annotated[
        str | None,
        option(
            f"Methods, separated by commas: {', '.join(METHODS)}; or your own, NAME=package.module:function.",
            metavar="NAME,...",
        ),
    ] = None,
    seeds: Annotated[
        int | None, option("Runs of each method, each with its own seed. Default: 3 for a table, else 1.")
    ] = None,
    edges: Annotated[int | None, option("Edges of the synthetic data set. Default: 24.")] = None,
    events: Annotated[int | None, option("Events per edge of the synthetic data set. Default: 20000.")] = None,
    batch_size: Annotated[
        int | None, option("Events per batch. Default: the data set's; a table's follows from its rows.")
    ] = None,
    rate: Annotated[float | None, option("Learning rate of Adam. Default: the model's.")] = None,
    clock: Annotated[str | None, option("event-time, or batch-index for lock-step. Default: event-time.")] = None,
    executor: Annotated[str | None, option("stacked, or one-at-a-time for debugging. Default: stacked.")] = None,
    device: Annotated[str | None, option("Device of torch, such as cuda. Default: cpu.")] = None,
    memory: Annotated[
        str | None, option("Memory for all processes together, such as 8G. Default: as it comes.", metavar="SIZE")
    ] = None,
    aggregate_every: Annotated[
        int | None, option("E: batches per aggregation. Default: 5; 2 to 5 for a table.", panel=_METHOD)
    ] = None,
    peers: Annotated[int | None, option("K: neighbours of an edge. Default: 5.", panel=_METHOD)] = None,
    replace: Annotated[int | None, option("K': neighbours replaced per selection. Default: 1.", panel=_METHOD)] = None,
    select_every: Annotated[int | None, option("m: aggregations per selection. Default: 1.", panel=_METHOD)] = None,
    weight_rate: Annotated[
        float | None, option("Learning rate of the weights. Default: the method's.", panel=_METHOD)
    ] = None,
    aggregation: Annotated[
        str | None,
        option("An aggregation rule of your own.", panel=_METHOD, metavar="MODULE:RULE"),
    ] = None,
    selection: Annotated[
        str | None,
        option("A selection rule of your own.", panel=_METHOD, metavar="MODULE:RULE"),
    ] = None,
    optimizer: Annotated[
        str | None, option("An optimizer of your own in place of Adam.", panel=_METHOD, metavar="MODULE:RULE")
    ] = None,
    trial: Annotated[
        bool | None,
        option(
            "Score peers' models on own batches before they count (learned methods).",
            "--trial/--no-trial",
            panel=_METHOD,
        ),
    ] = None,
    home: Annotated[
        bool | None,
        option(
            "Keep a home model, never mixed, that shares in predictions where it is better (learned methods).",
            "--home/--no-home",
            panel=_METHOD,
        ),
    ] = None,
    private: Annotated[
        bool, option("Publish privately: a model with noise, and nothing else.", "--private", panel=_PRIVACY)
    ] = False,
    epsilon: Annotated[
        float | None,
        option("What a window of a day may reveal of a user. Default: 8; implies --private.", panel=_PRIVACY),
    ] = None,
    private_user: Annotated[
        str | None,
        option(
            "Field with the users that are protected. Default: each event on its own; implies --private.",
            panel=_PRIVACY,
            metavar="FIELD",
        ),
    ] = None,
    private_ids: Annotated[
        str | None,
        option(
            "Fields whose ids may be told, with noisy counts. Default: none; implies --private.",
            panel=_PRIVACY,
            metavar="FIELD,...",
        ),
    ] = None,
    delay: Annotated[
        int | None, option("Batches until the labels of a batch arrive. Default: 0.", panel=_CONDITIONS)
    ] = None,
    staleness: Annotated[
        int | None, option("Age of pulled models, in aggregation periods. Default: 0.", panel=_CONDITIONS)
    ] = None,
    drop: Annotated[
        float | None,
        option("Share of time that an edge is unreachable. Default: 0.", panel=_CONDITIONS, metavar="SHARE"),
    ] = None,
    adversaries: Annotated[
        float | None,
        option("Share of edges that are hostile. Default: 0.", panel=_CONDITIONS, metavar="SHARE"),
    ] = None,
    attack: Annotated[
        str | None,
        option(f"What hostile edges do: {', '.join(ATTACKS)}. Default: {ATTACKS[0]}.", panel=_CONDITIONS),
    ] = None,
    label_noise: Annotated[
        float | None,
        option("Share of flipped labels on edge 0. Default: 0.", panel=_CONDITIONS, metavar="SHARE"),
    ] = None,
    config_file: options.ConfigFile = None,
    out: Annotated[
        Path | None, option("Folder for the results: summary, tables, figures, report.html.", metavar="DIR")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoints in --out, with the same options.")
    ] = False,
    checkpoint_every: Annotated[
        str, typer.Option(help="How often runs under way are written to --out.", metavar="DURATION")
    ] = "5m",
    json: options.JsonFile = None,
    jobs: options.Jobs = None,
    engine: options.Engine = "local",
    ray_address: options.RayAddress = None,
    shards: options.Shards = 1,
) -> None:
    """Simulate edges that learn with AlphaEdge and with its rivals, and compare the methods."""
    from rich.console import Console

    from alphaedge.cli import dataset
    from alphaedge.cli.output import check_writable, prints_json, write_json
    from alphaedge.cli.simulate_output import print_results, run_with_progress
    from alphaedge.cli.workers import open_workers
    from alphaedge.replay.options import parse_duration
    from alphaedge.simulation import config

    console = Console(stderr=prints_json(json))
    overrides = dataset.drop_unset(
        dataset.data_settings(context.params)
        | {
            "model": model,
            "rows": rows,
            "methods": dataset.split_names(methods),
            "seeds": seeds,
            "batch_size": batch_size,
            "rate": rate,
            "optimizer": optimizer,
            "clock": clock,
            "executor": executor,
            "device": device,
            "memory": memory,
            "store": {"edges": edges, "events": events},
            "method": {
                "aggregate_every": aggregate_every,
                "peers": peers,
                "replace": replace,
                "select_every": select_every,
                "weight_rate": weight_rate,
                "aggregation": aggregation,
                "selection": selection,
                "home": home,
                "trial": trial,
                "privacy": _privacy(private, epsilon, private_user, dataset.split_names(private_ids)),
            },
            "conditions": {
                "delay": delay,
                "staleness": staleness,
                "drop": drop,
                "adversaries": adversaries,
                "attack": attack,
                "label_noise": label_noise,
            },
        }
    )
    with exit_on_error():
        if config_file is None:
            dataset.check_table(overrides)
            if overrides.get("data") == "table":
                overrides.setdefault("methods", list(TABLE_METHODS))
        settings = config.load(config_file, overrides) if config_file else config.build(overrides)
        settings = dataset.resolve(settings, console)
        check_writable(out, json)
        checkpoints = _checkpoints(out, resume=resume, shards=shards)
        seconds = parse_duration("checkpoint_every", checkpoint_every)
        with open_workers(engine, ray_address, jobs, shards) as workers:
            kept = _kept_method(settings.methods, out, shards)
            results = run_with_progress(settings, workers, checkpoints, seconds, console, kept)
        if out is not None:
            results.save(out)
            if not results.interrupted:
                shutil.rmtree(out / "checkpoints", ignore_errors=True)
        summary = results.summary()
        if json is not None:
            write_json(summary, json)
    print_results(summary, console, out, table=not prints_json(json))
    if results.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _privacy(private: bool, epsilon: float | None, user: str | None, ids: list[str] | None) -> dict[str, object] | None:
    """The settings of private publication, if any of its options was given."""
    if not private and epsilon is None and user is None and ids is None:
        return None
    return {"epsilon": EPSILON if epsilon is None else epsilon, "user": user, "tables": ids}


def _kept_method(methods: Sequence[str], out: Path | None, shards: int) -> str | None:
    """The method whose fleet is kept as it ended, for ``alphaedge fleet init``: AlphaEdge, if there is a folder."""
    return KEPT_METHOD if out is not None and shards == 1 and KEPT_METHOD in methods else None


def _checkpoints(out: Path | None, *, resume: bool, shards: int) -> Path | None:
    """The folder for checkpoints in the results folder; there are none of a fleet in shards."""
    if shards > 1:
        if resume:
            raise InvalidValue("resume", True, "no resume with --shards: a fleet in shards writes no checkpoints")
        return None
    if out is None:
        if resume:
            raise InvalidValue("resume", True, "--out, the folder of the simulation to go on with")
        return None
    folder = out / "checkpoints"
    if not resume and any(folder.glob("*.pt")):
        raise InvalidValue("out", str(out), "a folder without checkpoints, or --resume to go on from them")
    return folder
