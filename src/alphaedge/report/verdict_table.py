"""The regions of a verdict as rows of text, for the terminal, the report and notebooks."""

from collections.abc import Mapping
from typing import Any, Final

from rich.filesize import decimal

from alphaedge.report.styles import NO_NUMBER
from alphaedge.scoring import format_gain

REGION_COLUMNS: Final = ("region", "gain", "alone", "with peers", "events", "pulled")


def region_rows(verdict: Mapping[str, Any], most: int) -> list[list[str]]:
    """Region, gain, score alone, score with peers, events, bytes (``REGION_COLUMNS``); the largest gains first.

    most: with more regions, those in the middle are left out, and a row says how many. verdict: plain values.
    """
    ordered = sorted(verdict["regions"], key=lambda r: (r["gain"] is None, -(r["gain"] or 0.0)))
    rows = [_row(region) for region in ordered]
    if len(rows) <= most:
        return rows
    first = most // 2
    last = most - first
    return [*rows[:first], [f"… {len(rows) - most:,} more", *[""] * (len(REGION_COLUMNS) - 1)], *rows[-last:]]


def _row(region: Mapping[str, Any]) -> list[str]:
    gain = NO_NUMBER if region["gain"] is None else format_gain(region["gain"], region["ci95"])
    scores = [NO_NUMBER if score is None else f"{score:.4f}" for score in (region["alone"], region["with_peers"])]
    return [region["name"], gain, *scores, f"{region['events']:,}", decimal(region["bytes"])]
