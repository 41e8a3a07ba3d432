"""``alphaedge simulate``: run a fleet under several methods and look at what comes of it."""

import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from alphaedge.cli import dataset
from alphaedge.cli.dataset import option
from alphaedge.core.methods import METHODS
from alphaedge.errors import AlphaEdgeError, InvalidValue
from alphaedge.report.numbers import human
from alphaedge.simulation import config
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.results import Results, writable
from alphaedge.simulation.run_log import Progress as Report
from alphaedge.simulation.simulate import simulate as run

EXAMPLES = """[bold]Examples[/]

alphaedge simulate

alphaedge simulate --methods alphaedge,noagg --seeds 5 --out results/first

alphaedge simulate --adversaries 0.25 --drop 0.25 --delay 5

alphaedge simulate --data movielens --methods alphaedge,noagg

alphaedge simulate --table sales.csv --time day --edge shop --label sold --id item --number price

alphaedge simulate --config results/first/config.toml --json again.json
"""

_WORLD, _METHOD = "What the world does", "How edges learn from each other"


def simulate(
    data: Annotated[str | None, option("Data set: " + ", ".join(CATALOG) + ". Default: synthetic.")] = None,
    table: dataset.TableFile = None,
    time: dataset.Time = None,
    edge: dataset.Edge = None,
    label: dataset.Label = None,
    ids: dataset.Ids = None,
    categories: dataset.Categories = None,
    numbers: dataset.Numbers = None,
    task: dataset.Task = None,
    model: Annotated[str | None, option("Base model of the data set, such as mlp or change for airquality.")] = None,
    rows: Annotated[int | None, option("At most so many events, those after the first quarter.")] = None,
    methods: Annotated[
        str | None, option("Methods, comma-separated, of " + ", ".join(METHODS) + ".", metavar="NAME,...")
    ] = None,
    seeds: Annotated[int | None, option("How many seeds (runs) of each method. Default: 1.")] = None,
    edges: Annotated[int | None, option("Edges of the synthetic store. Default: 24.")] = None,
    events: Annotated[int | None, option("Events per edge of the synthetic store. Default: 20000.")] = None,
    batch_size: Annotated[int | None, option("Events per batch. Default: what suits the data.")] = None,
    rate: Annotated[float | None, option("Rate of the model's Adam. Default: what suits the data.")] = None,
    clock: Annotated[str | None, option("event-time or batch-index (lock-step). Default: event-time.")] = None,
    executor: Annotated[str | None, option("stacked, or one-at-a-time for debugging. Default: stacked.")] = None,
    aggregate_every: Annotated[int | None, option("E: batches per aggregation. Default: 20.", panel=_METHOD)] = None,
    peers: Annotated[int | None, option("K: peers of an edge. Default: 5.", panel=_METHOD)] = None,
    replace: Annotated[int | None, option("K': peers replaced at a selection. Default: 1.", panel=_METHOD)] = None,
    select_every: Annotated[int | None, option("m: aggregations per selection. Default: 1.", panel=_METHOD)] = None,
    weight_rate: Annotated[float | None, option("Rate at which weights are learned.", panel=_METHOD)] = None,
    home: Annotated[
        bool | None,
        typer.Option(
            "--home/--no-home",
            help="Keep a never-mixed twin that predicts where it is better (learned methods).",
            rich_help_panel=_METHOD,
            show_default=False,
        ),
    ] = None,
    delay: Annotated[int | None, option("Feedback arrives this many batches later. Default: 0.", panel=_WORLD)] = None,
    staleness: Annotated[
        int | None, option("Fetched models are this many periods old. Default: 0.", panel=_WORLD)
    ] = None,
    drop: Annotated[
        float | None,
        option("Share of time an edge is unreachable. Default: 0.", "--drop", panel=_WORLD, metavar="SHARE"),
    ] = None,
    adversaries: Annotated[
        float | None,
        option("Share of edges that learn flipped labels. Default: 0.", panel=_WORLD, metavar="SHARE"),
    ] = None,
    label_noise: Annotated[
        float | None,
        option("Share of edge 0's labels that are flipped. Default: 0.", panel=_WORLD, metavar="SHARE"),
    ] = None,
    config_file: Annotated[
        Path | None, option("Settings as TOML; options given here win.", "--config", metavar="FILE")
    ] = None,
    out: Annotated[Path | None, option("Results folder: summary, tables, figures, report.html.", metavar="DIR")] = None,
    json: Annotated[
        Path | None, option("Write the summary here ('-': print it, nothing else).", metavar="FILE")
    ] = None,
    jobs: Annotated[int | None, option("Processes. Default: one per core.")] = None,
) -> None:
    """Simulate a fleet of edges under several methods: AlphaEdge and its rivals."""
    silent = str(json) == "-"
    console = Console(stderr=silent)
    wanted = dataset.chosen(
        data, file=table, time=time, edge=edge, label=label, ids=ids, categories=categories, numbers=numbers, task=task
    ) | {
        "model": model,
        "rows": rows,
        "methods": [m.strip() for m in methods.split(",") if m.strip()] if methods is not None else None,
        "seeds": seeds,
        "batch_size": batch_size,
        "rate": rate,
        "clock": clock,
        "executor": executor,
        "store": {"edges": edges, "events": events},
        "method": {
            "aggregate_every": aggregate_every,
            "peers": peers,
            "replace": replace,
            "select_every": select_every,
            "weight_rate": weight_rate,
            "home": home,
        },
        "conditions": {
            "delay": delay,
            "staleness": staleness,
            "drop": drop,
            "adversaries": adversaries,
            "label_noise": label_noise,
        },
    }
    overrides = dataset.given(wanted)
    try:
        if config_file is None:
            dataset.check_columns(table, time=time, edge=edge, label=label)
        settings = config.load(config_file, overrides) if config_file else config.build(overrides)
        settings = dataset.complete(settings, console)
        if out is not None:
            writable(out)
        if json is not None and not silent:
            writable(json.parent)
            if json.is_dir():
                raise InvalidValue("json", str(json), "a file, or - to print")
        results = _watched(settings, (os.cpu_count() or 1) if jobs is None else jobs, console)
        if out is not None:
            results.save(out)
    except AlphaEdgeError as error:
        typer.echo(f"error {error}", err=True)
        raise typer.Exit(2) from None
    summary = results.summary()
    if json is not None:
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        if silent:
            sys.stdout.write(text.decode() + "\n")
        else:
            json.write_bytes(text)
    if not silent:
        console.print(_table(summary))
        if verdict := _verdict(summary):
            console.print(verdict, highlight=False, markup=False, soft_wrap=True)
    for message in summary["messages"]:
        console.print(f"[yellow]note[/] {escape(message)}", highlight=False, soft_wrap=True)
    if out is not None:
        look = f" (open {out / 'report.html'})" if summary["methods"] else ""
        console.print(f"Results in {out}{look}", highlight=False, markup=False, soft_wrap=True)
    if results.interrupted:
        raise typer.Exit(130)


def _watched(settings: config.Settings, jobs: int, console: Console) -> Results:
    """Run with a live bar: batches done, score so far, time left."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} edge-batches"),
        TextColumn("{task.fields[score]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
    )
    seen: dict[str, Report] = {}
    lines: dict[str, Any] = {}
    runs = len(settings.methods) * settings.seeds
    started = perf_counter()
    with bar:
        whole = bar.add_task(f"{settings.data}, {runs} {'run' if runs == 1 else 'runs'}", total=1, score="")

        def watch(name: str, report: Report) -> None:
            if not name:  # the whole, before anything has started
                bar.update(whole, total=report.total)
                return
            if name not in lines:
                lines[name] = bar.add_task(f"  {name.partition('/')[0]}", total=report.total, score="")
            seen[name] = report
            score = f"score {report.score:.4f}" if report.score is not None else ""
            bar.update(lines[name], completed=report.batches, score=score, visible=report.batches < report.total)
            bar.update(whole, completed=sum(r.batches for r in seen.values()))

        results = run(settings, jobs=jobs, watch=watch)
        done = sum(r.batches for r in seen.values())
        bar.update(whole, total=done, completed=done)
    if results.interrupted:
        console.print("[yellow]Interrupted[/]: what was finished is kept.")
    console.print(f"{perf_counter() - started:.1f} s", style="dim")
    return results


def _table(summary: dict[str, Any]) -> Table:
    title = f"{summary['metric']} on {summary['data']}, {summary['edges']} edges"
    table = Table(
        title=title,
        title_justify="left",
        caption="of full: bytes fetched as a share of whole models; eb/s: edge-batches per second",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),  # fits 80 columns
    )
    for column in ("method", summary["metric"], "pooled", "loss", "fetched", "of full", "eb/s"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    rows = summary["methods"]
    best = max((r["mean"] for r in rows.values() if r["mean"] is not None), default=None)
    for name, row in sorted(rows.items(), key=lambda r: -(r[1]["mean"] or 0)):
        interval = f" ± {row['ci95']:.4f}" if row["ci95"] is not None else ""
        mean = "-" if row["mean"] is None else f"{row['mean']:.4f}{interval}"
        full, changed = row["bytes"]["full"], row["bytes"]["changed"]
        table.add_row(
            name,
            f"[bold]{mean}[/]" if row["mean"] == best else mean,
            "-" if row["pooled"] is None else f"{row['pooled']:.4f}",
            "-" if row["loss"] is None else f"{row['loss']:.4f}",
            human(changed) if full else "-",
            f"{changed / full:.0%}" if full else "-",
            f"{row['edge_batches_per_second']:,.0f}",
        )
    return table


def _verdict(summary: dict[str, Any]) -> str:
    """Whether these edges should learn from each other, edge by edge; nothing without both sides."""
    ours, alone = (summary["methods"].get(m) for m in ("alphaedge", "noagg"))
    if not ours or not alone or ours["mean"] is None or alone["mean"] is None:
        return ""
    names = summary["names"] or [str(e) for e in range(summary["edges"])]
    hostile = {edge for edges in summary["adversaries"].values() for edge in edges}
    gaps = {
        name: a - b
        for edge, (name, a, b) in enumerate(zip(names, ours["per_edge"], alone["per_edge"], strict=True))
        if a is not None and b is not None and edge not in hostile
    }
    gain, better = ours["mean"] - alone["mean"], sum(gap > 0 for gap in gaps.values())
    text = f"Learning from each other: {gain:+.4f} {summary['metric']} over learning alone, better on {better} of "
    text += f"{len(gaps)} edges"
    if 1 < len(gaps) <= 12:
        text += " (" + ", ".join(f"{name} {gap:+.4f}" for name, gap in sorted(gaps.items(), key=lambda g: -g[1])) + ")"
    return text + "."
