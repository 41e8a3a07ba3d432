"""What ``alphaedge simulate`` prints: progress while it runs, then a table and a verdict."""

from pathlib import Path
from time import perf_counter
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from alphaedge.report.styles import NO_NUMBER
from alphaedge.report.verdict_table import REGION_COLUMNS, region_rows
from alphaedge.simulation.config import Settings
from alphaedge.simulation.results import Results
from alphaedge.simulation.run_log import Progress as Report
from alphaedge.simulation.simulate import simulate
from alphaedge.simulation.workers.protocol import Workers

MAX_REGIONS: Final = 12  # rows of a table in the terminal
MAX_NAME: Final = 22  # characters of a method, a baseline or a region


def run_with_progress(
    settings: Settings,
    workers: Workers,
    checkpoints: Path | None,
    every: float,
    console: Console,
    keep_state: str | None = None,
) -> Results:
    """Simulate with a live bar: batches done, current score, time left."""
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
    reports: dict[str, Report] = {}
    lines: dict[str, Any] = {}
    runs = len(settings.methods) * settings.runs
    started = perf_counter()
    with bar:
        whole = bar.add_task(f"{settings.data}, {runs} {'run' if runs == 1 else 'runs'}", total=1, score="")

        def watch(name: str, report: Report) -> None:
            if not name:  # the total of all runs, before the first one starts
                bar.update(whole, total=report.total)
                return
            if name not in lines:
                lines[name] = bar.add_task(f"  {name.partition('/')[0]}", total=report.total, score="")
            reports[name] = report
            score = f"score {report.score:.4f}" if report.score is not None else ""
            bar.update(lines[name], completed=report.batches, score=score, visible=report.batches < report.total)
            bar.update(whole, completed=sum(r.batches for r in reports.values()))

        results = simulate(
            settings,
            workers=workers,
            checkpoints=checkpoints,
            checkpoint_every=every,
            keep_state=keep_state,
            watch=watch,
        )
        done = sum(r.batches for r in reports.values())
        bar.update(whole, total=done, completed=done)
    if results.interrupted:
        again = "; go on from the checkpoints with --resume" if checkpoints else ""
        console.print(f"[yellow]Interrupted[/]: finished runs are kept{again}.")
    console.print(f"{perf_counter() - started:.1f} s", style="dim")
    return results


def print_results(summary: dict[str, Any], console: Console, out: Path | None, *, table: bool) -> None:
    """Print the table and the verdict if ``table`` says so, then notes and where the results are."""
    if table:
        console.print(_table(summary))
        if summary["verdict"] is not None:
            _print_verdict(summary["verdict"], console)
    for message in summary["messages"]:
        console.print(f"[yellow]note[/] {escape(message)}", highlight=False, soft_wrap=True)
    if out is not None:
        report = f" (open {out / 'report.html'})" if summary["methods"] else ""
        console.print(f"Results in {out}{report}", highlight=False, markup=False, soft_wrap=True)


def _table(summary: dict[str, Any]) -> Table:
    title = f"{summary['metric']} on {summary['data']}, {summary['edges']} edges"
    table = Table(
        title=title,
        title_justify="left",
        caption=_caption(summary),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),  # fits 80 columns
    )
    for column in ("method", summary["metric"], "pooled", summary["loss"], "pulled", "of full", "eb/s"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    table.columns[0].max_width = MAX_NAME
    rows = summary["methods"]
    best = max((r["mean"] for r in rows.values() if r["mean"] is not None), default=None)
    for name, row in sorted(rows.items(), key=lambda r: -(r[1]["mean"] or 0)):
        interval = f" ± {row['ci95']:.4f}" if row["ci95"] is not None else ""
        mean = _number(row["mean"]) + interval
        full, changed = row["bytes"]["full"], row["bytes"]["changed"]
        table.add_row(
            escape(name),
            f"[bold]{mean}[/]" if row["mean"] == best else mean,
            _number(row["pooled"]),
            _number(row["loss"]),
            decimal(changed) if full else NO_NUMBER,
            f"{changed / full:.0%}" if full else NO_NUMBER,
            f"{row['edge_batches_per_second']:,.0f}",
        )
    for name, row in summary["baselines"].items():
        cells = [Text(cell) for cell in (name, *(_number(row[key]) for key in ("mean", "pooled", "loss")))]
        table.add_row(*cells, style="italic dim")
    return table


def _caption(summary: dict[str, Any]) -> str:
    notes = ["pulled: by all edges in all runs; of full: as a share of whole models; eb/s: edge-batches per second"]
    if summary["baselines"]:
        notes.append("below, in italics: simple baselines, from the labels revealed so far")
    if summary["loss"] == "RMSE":
        notes.append("RMSE: root mean squared error, in the unit of the label")
    return "\n".join(notes)


def _number(value: float | None) -> str:
    """Four decimals, and fewer of large numbers, so that the table fits 80 columns."""
    if value is None:
        return NO_NUMBER
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _print_verdict(verdict: dict[str, Any], console: Console) -> None:
    """Print the conclusion, the regions, what else there is to say, and warnings."""
    colour = {"pays": "green", "does not pay": "red"}.get(verdict["conclusion"], "yellow")
    console.print(Text(verdict["headline"], style=f"bold {colour}"))
    console.print(_regions(verdict))
    for sentence in verdict["sentences"]:
        console.print(Text(sentence))
    for warning in verdict["warnings"]:
        console.print(Text.assemble(("warning ", "yellow"), warning))


def _regions(verdict: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in REGION_COLUMNS:
        table.add_column(column, justify="left" if column == "region" else "right", no_wrap=True)
    table.columns[0].max_width = MAX_NAME
    for row in region_rows(verdict, MAX_REGIONS):
        table.add_row(*(Text(cell) for cell in row))
    return table
