"""A large table of one's own: time and memory until it is guessed, described and loaded.

10 million rows in 50 regions, with text ids of 100,000 values, a category and 4 numbers, as Parquet, as CSV and as
compressed CSV; each is read in a process of its own, with nothing named. CPU seconds count all threads; memory is the
most that the process has had at a time.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from benchmarks.common import arguments, report

ROWS: Final = 10_000_000
QUICK_ROWS: Final = 200_000
REGIONS: Final = 50
ITEMS: Final = 100_000
KINDS: Final = 30
NUMBERS: Final = 4


def make_table(rows: int) -> pl.DataFrame:
    """Make up events in the order of their times; small ids are popular, as in real catalogues."""
    draw = np.random.default_rng(0)
    seconds = np.sort(draw.integers(1_600_000_000, 1_700_000_000, rows))
    items = (draw.random(rows) ** 2 * ITEMS).astype(np.int64)

    def text(prefix: str, values: np.ndarray, digits: int) -> pl.Series:
        named = pl.Series([f"{prefix}-{i:0{digits}}" for i in range(int(values.max()) + 1)])
        return named.gather(pl.Series(values))

    return pl.DataFrame(
        {
            "when": pl.from_epoch(pl.Series(seconds)),
            "region": text("region", draw.integers(0, REGIONS, rows), 2),
            "item": text("item", items, 6),
            "kind": text("kind", draw.integers(0, KINDS, rows), 2),
            **{f"x{i}": pl.Series(draw.normal(size=rows)).round(4) for i in range(NUMBERS)},
            "sold": draw.integers(0, 2, rows),
        }
    )


def write(rows: int, folder: Path) -> list[Path]:
    """Write the table in all forms."""
    table = make_table(rows)
    files = [folder / name for name in ("sales.parquet", "sales.csv", "sales.csv.gz")]
    table.write_parquet(files[0])
    table.write_csv(files[1])
    table.write_csv(files[2], compression="gzip", compression_level=1)
    return files


def measure(file: str) -> dict[str, float]:
    """Guess, describe and load a table. For a new process."""
    from alphaedge.data.table import Table, describe, guess_columns, load

    began = time.perf_counter()
    table = guess_columns(Table(file=file))
    print(describe(table).lines(file), file=sys.stderr)
    data = load(table)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert len(data.streams) == REGIONS
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "gigabytes": used.ru_maxrss / 1e6}


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__, measure={"help": "read this file and print the figures", "metavar": "TABLE"})
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write(QUICK_ROWS if args.quick else ROWS, Path(folder))
        figures = {}
        for file in files:
            command = [sys.executable, "-m", "benchmarks.table", "--measure", str(file)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            figures[file.name] = json.loads(output) | {"megabytes": file.stat().st_size / 1e6}
    rows = [
        [name, f"{f['megabytes']:.0f}", f"{f['seconds']:.0f}", f"{f['cpu_seconds']:.0f}", f"{f['gigabytes']:.1f}"]
        for name, f in figures.items()
    ]
    report("A large table", ["file", "MB", "seconds", "CPU seconds", "GB at most"], rows, figures, args.json)


if __name__ == "__main__":
    main()
