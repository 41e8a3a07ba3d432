"""What a clean-up of the journal costs: of a million learned predictions, of which none is old, and then some are."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from alphaedge.edge.store.journal import CLEAN_UP_ROWS, Journal
from benchmarks.limit_cases.measured import Row

CLEAN_UP_MS: Final = 50.0


def measure(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure how long steps of a clean-up take, beside many learned predictions that stay. quick: a small journal."""
    rows, size = 50_000 if quick else 1_000_000, 50_000
    journal = Journal(folder / "journal.db")
    features = bytes(48)
    for start in range(0, rows, size):
        ids = journal.record_predictions([features] * size, [0.5] * size, now=float(start))
        journal.record_feedback([(i, 1.0) for i in ids], now=float(start))

    def step(before: float) -> tuple[float, int]:
        began = time.perf_counter()
        done = journal.clean_up(before, rows, negative=False, now=float(rows))
        return 1e3 * (time.perf_counter() - began), done.dropped

    while journal.clean_up(0.0, rows, negative=False, now=float(rows)).more:
        pass  # the mark of what was learned passes them once
    idle = statistics.median(step(0.0)[0] for _ in range(20))
    steps = [step(1.0) for _ in range(20)]
    assert sum(dropped for _, dropped in steps) == 20 * CLEAN_UP_ROWS
    journal.close()
    yield Row(f"clean-up of a journal of {rows} rows: nothing to remove", "ms", idle, CLEAN_UP_MS)
    name = f"clean-up of a journal of {rows} rows: {CLEAN_UP_ROWS} removed"
    yield Row(name, "ms", statistics.median(milliseconds for milliseconds, _ in steps), CLEAN_UP_MS)
