"""What callers and other members can cost an edge: CPU, memory and time, for each limit.

Real ports run in processes of their own and are sent what they must refuse, the largest requests that they accept, and
floods: the port for callers (``limit_cases.callers``), and the port for peers, for pulls (``limit_cases.pulls``) and
gossip (``limit_cases.gossip``). ``limit_cases.journal`` measures the clean-up of the journal.
"""

import os
import tempfile
from pathlib import Path

from benchmarks.common import arguments, report
from benchmarks.limit_cases import callers, gossip, journal, pulls
from benchmarks.limit_cases.measured import Row


def measure(*, quick: bool) -> list[Row]:
    """Measure everything. quick: with few repetitions, and a small journal."""
    rows: list[Row] = []
    for prefix, kind in (("", callers), ("", journal), ("peers: ", pulls), ("gossip: ", gossip)):
        with tempfile.TemporaryDirectory(prefix="alphaedge-") as folder:
            rows += [row._replace(name=prefix + row.name) for row in kind.measure(Path(folder), quick=quick)]
    return rows


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "")
    rows = measure(quick=args.quick)
    table = [
        [row.name, row.unit, f"{row.value:.3g}", f"{row.limit:.4g}", "" if row.value <= row.limit else "over the limit"]
        for row in rows
    ]
    figures = {row.name: {"value": row.value, "unit": row.unit, "limit": row.limit} for row in rows}
    title = f"What an edge spends on its callers and peers; {os.cpu_count()} cores"
    report(title, ["request", "unit", "measured", "limit", ""], table, figures, args.json)


if __name__ == "__main__":
    main()
