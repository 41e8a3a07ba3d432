"""Gossip and selection of 100,000 edges without models: what works, what breaks first, and what would not.

``selection``: how fast edges find the peers that were planted for them, under churn of 1% a round and a partition, by
the project's rule and by the design in docs/internet-scale.md. ``directory``: how long news take, and what a full
directory costs an edge: measured sizes and times of real announcements, times simulated rates.
"""

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from alphaedge.data.synthetic import Store
from benchmarks.common import arguments, report
from benchmarks.internet import budget, costs, gossip_runs, learned_weights, selection_runs, view_runs
from benchmarks.internet.pictures import draw_pictures

PARTS: Final = ("selection", "directory")
SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
STORE: Final = Store(edges=40, clusters=4, events=10_000)
ALIKE_STORE: Final = Store(edges=80, clusters=1, events=9_000, users=50, items=300)
QUICK_STORE: Final = Store(edges=8, clusters=2, events=1_500)


def measure_selection(*, quick: bool) -> dict[str, Any]:
    """Run every scenario of selection, and check the model of the weights."""
    scenarios = selection_runs.scenarios(quick=quick)
    weights = learned_weights.measure(QUICK_STORE if quick else STORE, selection_runs.USUAL)
    hubs = learned_weights.measure_hubs(QUICK_STORE if quick else ALIKE_STORE)
    return {"weights": weights, "hubs": hubs} | {
        "selection": {name: selection_runs.run(one).figures(one) for name, one in scenarios.items()}
    }


def measure_directory(*, quick: bool) -> dict[str, Any]:
    """Run gossip, measure real announcements, and put both together."""
    gossip = gossip_runs.measure(quick=quick)
    with tempfile.TemporaryDirectory(prefix="alphaedge-") as folder:
        measured = costs.measure(Path(folder), edges=200 if quick else 2_000, repeat=20 if quick else costs.REPEAT)
    largest = gossip[max(gossip, key=int)]
    fast, slow = largest["at once"]["heard"], largest["lockstep"]["heard"]
    full = {}
    for edges in SIZES:
        load = dataclasses.asdict(budget.full_directory(measured, edges, fast))
        full[str(edges)] = load | {
            "cores, slow network": budget.full_directory(measured, edges, slow).cores,
            "join": budget.join_seconds(measured, edges),
        }
    return {
        "gossip": gossip,
        "costs": dataclasses.asdict(measured),
        "directory": full,
        "partial views": dataclasses.asdict(budget.partial_views(measured)),
        "limits": budget.limits(measured, fast),
        "dead": budget.dead_entries(),
        "views": view_runs.measure(quick=quick),
    }


def tables(figures: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The figures as tables: title, columns, rows."""
    found = []
    if "selection" in figures:
        levels = [str(level) for level in selection_runs.LEVELS]
        rows = [
            [
                name,
                f"{one['edges']:,} / {one['cluster']:,}",
                " / ".join(_text(one["until"][level]) for level in levels),
                f"{one['rounds']:,}",
                f"{one['late']:.3f}",
                f"{one['most busy']:,}",
            ]
            for name, one in figures["selection"].items()
        ]
        columns = ["run", "edges / cluster", "rounds to 50% / 80% / 95%", "rounds", "at the end", "busiest edge"]
        found.append(("Planted peers among neighbours", columns, rows))
    if "gossip" in figures:
        rows = []
        for edges, one in figures["gossip"].items():
            ways = [one["at once"]["spread"], one["lockstep"]["spread"], one["heal"], one["one contact"]]
            times = [" / ".join(_text(way.get(str(level))) for level in gossip_runs.LEVELS) for way in ways]
            heard = f"{one['lockstep']['heard']} to {one['at once']['heard']}"
            rows.append([f"{int(edges):,}", *times, heard, f"{one['known under churn']:.4f}"])
        columns = ["edges", "at once", "lockstep", "after a partition", "one contact", "heartbeats heard", "churn"]
        found.append(("Rounds until 50% / 99% / all edges know", columns, rows))
        rows = [[f"{int(edges):,}", *_load(one), f"{one['join']:.1f}"] for edges, one in figures["directory"].items()]
        rows.append(["any, partial views", *_load(figures["partial views"]), ""])
        columns = ["edges", "sent, Mbit/s", "cores", "memory, MB", "join, s"]
        found.append(("What the directory costs an edge", columns, rows))
        rows = [[name, f"{edges:,.0f}"] for name, edges in sorted(figures["limits"].items(), key=lambda one: one[1])]
        found.append(("Where a full directory ends", ["limit", "edges"], rows))
    return found


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)


def _load(one: dict[str, float]) -> list[str]:
    return [f"{one['sent'] / budget.MBIT:.3g}", f"{one['cores']:.2g}", f"{one['memory'] / 1e6:.3g}"]


def main() -> None:
    """Measure, print, write, draw."""
    args: argparse.Namespace = arguments(
        __doc__ or "",
        only={"choices": PARTS, "help": "one part only; the file keeps the figures of the other"},
        pictures={"type": Path, "metavar": "DIR", "help": "draw the figures to this folder"},
    )
    figures: dict[str, Any] = {}
    if args.only and args.json and args.json.exists():
        figures = json.loads(args.json.read_text(encoding="utf-8"))
    if args.only in (None, "selection"):
        figures |= measure_selection(quick=args.quick)
    if args.only in (None, "directory"):
        figures |= measure_directory(quick=args.quick)
    for title, columns, rows in tables(figures):
        report(title, columns, rows, figures, args.json)
    if args.pictures:
        draw_pictures(figures, args.pictures)


if __name__ == "__main__":
    main()
