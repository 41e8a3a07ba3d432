"""Scores beside what they cost to transfer, so that methods can be compared at equal bytes."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.filesize import decimal

from alphaedge.experiments.cell import CellResult
from alphaedge.experiments.plan import Plan
from alphaedge.experiments.score_table import Lookup, title
from alphaedge.experiments.scores import best_rival, cell_score, difference
from alphaedge.report.page import Block, Grid, Heading, Text
from alphaedge.report.styles import NO_NUMBER

EQUAL: Final = 1.1  # methods that pull at most so many times the bytes of AlphaEdge are compared with it


def bytes_per_edge(result: CellResult | None) -> float | None:
    """Bytes that an edge pulls over a whole run, on average: dense parts, and changed rows of common ids."""
    if result is None or not result.per_edge:
        return None
    return result.bytes[2] / sum(len(run) for run in result.per_edge)


def format_bytes(result: CellResult | None) -> str:
    """Format the bytes that an edge pulls over a run."""
    pulled = bytes_per_edge(result)
    return NO_NUMBER if pulled is None else decimal(round(pulled))


def equal_bytes(plan: Plan, get: Lookup, methods: Sequence[str], adversaries: float = 0.0) -> list[Block]:
    """Make a table of scores and bytes by method and data set, and compare at equal bytes."""
    results = {d: {m: get(plan.table_cell(d, m, adversaries=adversaries)) for m in methods} for d in plan.data}
    body = [[title(m), *(_entry(results[d][m]) for d in plan.data)] for m in methods]
    leads = [f"{title(d)} {lead}" for d in plan.data if (lead := _lead(results[d])) is not None]
    compared = f" Against the best rival that pulls at most {EQUAL} times as much as AlphaEdge: {'; '.join(leads)}."
    return [
        Heading("Scores and bytes", 3),
        Text(
            "Score / bytes that an edge pulls over a run: dense parts, and the rows of common ids that changed."
            + (compared if leads else "")
        ),
        Grid(["", *(title(d) for d in plan.data)], body),
    ]


def _entry(result: CellResult | None) -> str:
    score = cell_score(result)
    return NO_NUMBER if score is None else f"{score.mean:.4f} / {format_bytes(result)}"


def _lead(results: Mapping[str, CellResult | None]) -> str | None:
    """AlphaEdge's lead over the best rival at equal bytes, in words."""
    pulled = {m: b for m, r in results.items() if (b := bytes_per_edge(r)) is not None}
    equal = [m for m, b in pulled.items() if "alphaedge" in pulled and b <= EQUAL * pulled["alphaedge"]]
    scores = {m: score for m in equal if (score := cell_score(results[m])) is not None}
    rival = best_rival(scores)
    lead = difference(scores["alphaedge"], scores[rival]) if rival is not None and "alphaedge" in scores else None
    if rival is None or lead is None:
        return None
    interval = "" if lead.ci95 is None else f" ± {lead.ci95:.4f}"
    return f"{lead.mean:+.4f}{interval} ({title(rival)})"
