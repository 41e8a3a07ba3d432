"""The report of a demonstration: a page with a table, figures and the incidents, and the summary as JSON."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.filesize import decimal

from alphaedge.demo import figures
from alphaedge.demo.reaction_text import REACTION_COLUMNS, reaction_rows, reaction_sentences
from alphaedge.demo.run import DemoResult
from alphaedge.demo.summary import DemoSummary
from alphaedge.report.page import Block, Grid, Heading, Picture, Text, write

COLUMNS = ("edge", "region", "live", "alone", "gain", "batches", "mixes", "pulled", "p50 ms", "p99 ms")
TITLE = "AlphaEdge: a demonstration"


def summary_rows(summary: DemoSummary) -> list[list[str]]:
    """Return the table: a row per edge, and the mean of the honest ones."""
    rows = []
    for e in summary.edges:
        name = f"{e.edge} (hostile)" if e.hostile else e.edge
        gain = "" if e.hostile else _gain(e.score, e.alone)
        counts = [f"{e.batches:,}", f"{e.aggregations:,}", decimal(e.bytes), _number(e.p50, 1), _number(e.p99, 1)]
        rows.append([name, e.region, _number(e.score, 4), _number(e.alone, 4), gain, *counts])
    mean = [_number(summary.score, 4), _number(summary.alone, 4), _gain(summary.score, summary.alone)]
    rows.append(["mean, honest", "", *mean] + [""] * (len(COLUMNS) - 5))
    return rows


def summary_sentences(summary: DemoSummary) -> list[str]:
    """Return the summary in words, without what became of hostile edges (``reaction_sentences``)."""
    sentences = [
        f"{summary.events:,} predictions in {summary.seconds:.0f} s, of which {summary.failures} requests failed; "
        f"{summary.undelivered} labels were not delivered."
    ]
    sentences += [
        f"{e.edge} was down for {e.down_seconds:.0f} s. Clients waited until it was back, which shows in its p99."
        for e in summary.edges
        if e.down_seconds
    ]
    if summary.score is not None and summary.alone is not None and summary.score <= summary.alone:
        sentences.append(
            "The edges did not gain from each other here. Edges alone are simulated: they learn each batch before the "
            "next one comes, while live learners lag behind on a busy machine, and a short run has few mixes."
        )
    return sentences


def save_report(result: DemoResult, summary: DemoSummary, folder: Path) -> Path:
    """Write report.html, report.md, the figures, summary.json and replay.json; return the path of report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write(_blocks(result, summary), folder, "report", TITLE)
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2))
    (folder / "replay.json").write_bytes(result.replay.to_json())
    return folder / "report.html"


def _blocks(result: DemoResult, summary: DemoSummary) -> Sequence[Block]:
    blocks: list[Block] = [
        Heading(TITLE, 1),
        Text(
            f"{len(summary.edges)} edges, each with a server and a learner, predicted and learned for "
            f"{summary.seconds:.0f} s. Each edge chose the peers that it pulled models from, and learned how much of "
            f"each to mix into its own. **live** is the mean {summary.metric} of the edges' predictions, made before "
            "their labels were known. **alone** is that of simulated edges that learn from the same events without "
            "peers."
        ),
        Grid(COLUMNS, summary_rows(summary)),
        *(Text(sentence) for sentence in summary_sentences(summary)),
        Heading("Incidents"),
        *(
            Text(f"`{time.strftime('%H:%M:%S', time.localtime(at))}` {incident.describe()}")
            for at, incident in result.incidents
        ),
        Heading("Scores"),
        Picture("scores", "Score of each edge over time; dashed lines mark incidents", figures.draw_scores(result)),
    ]
    for hostile in (edge.edge for edge in summary.edges if edge.hostile):
        figure = figures.draw_hostile_share(result, hostile, summary.reactions)
        title = f"Share of {hostile} in the mixes of the others; a cross marks an exclusion"
        blocks += [
            Heading(f"Who learns from {hostile}, which turned hostile"),
            Picture("hostile-share", title, figure),
            *(Text(sentence) for sentence in reaction_sentences(hostile, summary.reactions)),
            Grid(REACTION_COLUMNS, reaction_rows(hostile, summary.reactions)),
            Text("Mixes are counted from the turn. Times are those at which the watcher saw an edge's report."),
        ]
    return [
        *blocks,
        Heading("Who learns from whom"),
        Text("A row is an edge, a column a model that it mixes; the diagonal is its own."),
        Picture("weights", "Shares of all mixes at five moments", figures.draw_matrices(result)),
        Heading("Latency of predictions"),
        Picture("latency", "Cumulative latency of predictions, one line per edge", figures.draw_latency(result)),
    ]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _gain(score: float | None, alone: float | None) -> str:
    return "" if score is None or alone is None else f"{score - alone:+.4f}"
