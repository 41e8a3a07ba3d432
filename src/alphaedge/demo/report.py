"""The report of a demonstration: a page with a table, figures and the incidents, and the summary as JSON."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.filesize import decimal

from alphaedge.demo import figures
from alphaedge.demo.reaction_text import REACTION_COLUMNS, reaction_rows, reaction_sentences
from alphaedge.demo.run import DemoResult
from alphaedge.demo.story import tell
from alphaedge.demo.summary import DemoSummary
from alphaedge.demo.verdict import verdict
from alphaedge.report.page import Block, Grid, Heading, Picture, Text, write

COLUMNS = ("edge", "region", "together", "alone", "gain", "batches", "mixes", "pulled", "p50 ms", "p99 ms")
TITLE = "AlphaEdge: a demonstration"


def summary_rows(summary: DemoSummary) -> list[list[str]]:
    """Return the table: a row per edge, and the mean of the honest ones."""
    rows = []
    for e in summary.edges:
        name = f"{e.edge} (hostile)" if e.hostile else e.edge
        # A hostile edge learns from flipped labels: what it scores on them says nothing.
        scores = ["", "", ""] if e.hostile else _scores(e.score, e.alone, e.gain)
        counts = [f"{e.batches:,}", f"{e.aggregations:,}", decimal(e.bytes), _number(e.p50, 1), _number(e.p99, 1)]
        rows.append([name, e.region, *scores, *counts])
    mean = _scores(summary.score, summary.alone, summary.gain)
    rows.append(["mean, honest" if any(e.hostile for e in summary.edges) else "mean", "", *mean, *[""] * 5])
    return rows


def save_report(result: DemoResult, summary: DemoSummary, folder: Path) -> Path:
    """Write report.html, report.md, the figures, summary.json and replay.json; return the path of report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write(_blocks(result, summary), folder, "report", TITLE)
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2))
    (folder / "replay.json").write_bytes(result.replay.to_json())
    return folder / "report.html"


def _blocks(result: DemoResult, summary: DemoSummary) -> Sequence[Block]:
    story = tell(result.incidents, [event for frame in result.frames for event in frame.events])
    blocks: list[Block] = [
        Heading(TITLE, 1),
        *(Text(f"**{sentence}**") for sentence in verdict(summary)),
        Grid(COLUMNS, summary_rows(summary)),
        Text(
            f"{len(summary.edges)} edges, each with a server and a learner, predicted and learned for "
            f"{summary.seconds:.0f} s. Each edge chose the peers that it pulled models from, and learned how much of "
            f"each to mix into its own. **together** is the mean {summary.metric} of the edges' predictions, made "
            "before their labels were known. **alone** is that of their live twins: the home model that every edge "
            "keeps, which predicts and learns the same events at the same moments and never sees a peer's model."
        ),
        *(
            Text(f"{e.edge} was down for {e.down_seconds:.0f} s. Clients waited until it was back: see its p99.")
            for e in summary.edges
            if e.down_seconds
        ),
        Picture("gain", "Gain of each edge over its twin that learns alone", figures.draw_gains(result)),
        Heading("What happened"),
        *(
            Text(f"`{time.strftime('%H:%M:%S', time.localtime(line.time))}` {_mark(line.text, line.incident)}")
            for line in story.lines
        ),
        Text(f"Beside that, edges changed their peers {story.changes:,} times, which is how they find good ones."),
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


def _scores(score: float | None, alone: float | None, gain: float | None) -> list[str]:
    return [_number(score, 4), _number(alone, 4), "" if gain is None else f"{gain:+.4f}"]


def _mark(text: str, incident: bool) -> str:
    return f"**{text}**" if incident else text
