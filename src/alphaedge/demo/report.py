"""The report of a demonstration: one page with a table, pictures and what happened, and its numbers as JSON."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.filesize import decimal

from alphaedge.demo import pictures
from alphaedge.demo.numbers import Numbers
from alphaedge.demo.run import Played
from alphaedge.report.page import Block, Grid, Heading, Picture, Text, write

COLUMNS = ("edge", "region", "live", "alone", "gain", "batches", "mixes", "fetched", "p50 ms", "p99 ms")


def rows(found: Numbers) -> list[list[str]]:
    """The table, edge by edge, and the mean of the honest ones."""
    made = []
    for e in found.edges:
        name = f"{e.edge} (hostile)" if e.hostile else e.edge
        gain = "" if e.hostile else _gain(e.score, e.alone)
        counts = [f"{e.batches:,}", f"{e.aggregations:,}", decimal(e.bytes), _number(e.p50, 1), _number(e.p99, 1)]
        made.append([name, e.region, _number(e.score, 4), _number(e.alone, 4), gain, *counts])
    made.append(["mean, honest", "", _number(found.score, 4), _number(found.alone, 4), _gain(found.score, found.alone)])
    made[-1] += [""] * (len(COLUMNS) - len(made[-1]))
    return made


def sentences(found: Numbers) -> list[str]:
    """What came of it, in words."""
    said = [
        f"{found.events:,} predictions in {found.seconds:.0f} s, {found.failures} of them failed; "
        f"{found.undelivered} outcomes were not delivered."
    ]
    for r in found.reactions:
        mixes = "1 mix" if r.aggregations == 1 else f"{r.aggregations} mixes"
        after = "never let it fall below 0.02" if r.aggregations is None else f"below 0.02 after {mixes}"
        said.append(f"{r.edge} gave {r.hostile} a share of {r.share:.2f} before it turned hostile: {after}.")
    said += [
        f"{e.edge} was dark for {e.dark:.0f} s; clients waited until it was back, which is its p99."
        for e in found.edges
        if e.dark
    ]
    if found.score is not None and found.alone is not None and found.score <= found.alone:
        said.append(
            "Learning from each other did not pay here. Edges alone are simulated: they learn from a batch before the "
            "next one comes, while learners on a busy machine fall behind, and a short run has few mixes."
        )
    return said


def save(played: Played, found: Numbers, folder: Path) -> Path:
    """Write ``report.html``, ``report.md``, the figures and ``summary.json``; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write(_page(played, found), folder, "report", "AlphaEdge, a demonstration")
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2))
    (folder / "replay.json").write_bytes(played.outcome.json())
    return folder / "report.html"


def _page(played: Played, found: Numbers) -> Sequence[Block]:
    blocks: list[Block] = [
        Heading("AlphaEdge, a demonstration", 1),
        Text(
            f"{len(found.edges)} edges, each a server of its own, predicted and learned for {found.seconds:.0f} s. "
            "Each pulled models from peers that it chose itself, and learned how much of each to mix into its own. "
            f"**live** is the mean {found.metric} of what the edges predicted before they knew the outcome, **alone** "
            "that of edges that learn from the same events without peers (simulated)."
        ),
        Grid(COLUMNS, rows(found)),
        *(Text(sentence) for sentence in sentences(found)),
        Heading("What happened"),
        *(Text(f"`{time.strftime('%H:%M:%S', time.localtime(at))}` {scene.text}") for at, scene in played.scenes),
        Heading("Scores"),
        Picture("scores", "The score of each edge over time; dashed lines mark what happened", pictures.scores(played)),
    ]
    for scene in {scene.edge: scene for _, scene in played.scenes if scene.kind == "hostile"}.values():
        blocks += [
            Heading(f"Who listens to {scene.edge}"),
            Picture("trust", f"The share of {scene.edge} in the others' mixes", pictures.trust(played, scene.edge)),
        ]
    return [
        *blocks,
        Heading("Who learns from whom"),
        Text("A row is an edge, a column the model that it takes; the diagonal is its own."),
        Picture("weights", "Shares of all mixes at five moments", pictures.matrices(played)),
        Heading("How long predictions took"),
        Picture("latency", "Cumulative latency of predictions, edge by edge", pictures.latency(played)),
    ]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _gain(score: float | None, alone: float | None) -> str:
    return "" if score is None or alone is None else f"{score - alone:+.4f}"
