"""What ``alphaedge simulate`` prints: progress while it runs, then a table and a verdict."""

from pathlib import Path
from time import perf_counter
from typing import Any

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from alphaedge.simulation.config import Settings
from alphaedge.simulation.results import Results
from alphaedge.simulation.run_log import Progress as Report
from alphaedge.simulation.simulate import simulate
from alphaedge.simulation.workers.protocol import Workers


def run_with_progress(
    settings: Settings, workers: Workers, checkpoints: Path | None, every: float, console: Console
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

        results = simulate(settings, workers=workers, checkpoints=checkpoints, checkpoint_every=every, watch=watch)
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
        if verdict := _verdict(summary):
            console.print(verdict, highlight=False, markup=False, soft_wrap=True)
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
        caption="of full: bytes pulled as a share of whole models; eb/s: edge-batches per second",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),  # fits 80 columns
    )
    for column in ("method", summary["metric"], "pooled", "loss", "pulled", "of full", "eb/s"):
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
            decimal(changed) if full else "-",
            f"{changed / full:.0%}" if full else "-",
            f"{row['edge_batches_per_second']:,.0f}",
        )
    return table


def _verdict(summary: dict[str, Any]) -> str:
    """Say by how much learning from peers beats learning alone, edge by edge; empty unless both were run."""
    with_peers, alone = (summary["methods"].get(m) for m in ("alphaedge", "noagg"))
    if not with_peers or not alone or with_peers["mean"] is None or alone["mean"] is None:
        return ""
    names = summary["names"] or [str(e) for e in range(summary["edges"])]
    hostile = {edge for edges in summary["adversaries"].values() for edge in edges}
    gains = {
        name: a - b
        for edge, (name, a, b) in enumerate(zip(names, with_peers["per_edge"], alone["per_edge"], strict=True))
        if a is not None and b is not None and edge not in hostile
    }
    gain, better = with_peers["mean"] - alone["mean"], sum(g > 0 for g in gains.values())
    text = f"Learning from each other: {gain:+.4f} {summary['metric']} over learning alone, better on {better} of "
    text += f"{len(gains)} edges"
    if 1 < len(gains) <= 12:
        text += " (" + ", ".join(f"{name} {g:+.4f}" for name, g in sorted(gains.items(), key=lambda g: -g[1])) + ")"
    return text + "."
