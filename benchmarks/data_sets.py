"""What the data sets are like: edges, events, task, labels, ids, and how alike the edges are.

For the table of docs/decisions/0014-data-to-choose-on.md. Of the repository's four, the part that is for development
and the rest are described apart. How alike edges are is measured by the 10, 50 and 90% quantiles of their mean labels.
``--quick`` describes the synthetic worlds alone.
"""

from typing import Any

import torch

from alphaedge.data.stream import Dataset
from alphaedge.experiments.suites import DEVELOPMENT, EARLY_SHARE, EVENTS, REPORTING
from alphaedge.simulation.catalog import CATALOG
from benchmarks.common import arguments, report


def describe(data: Dataset) -> dict[str, Any]:
    """Return the figures of one data set."""
    counts = torch.tensor([len(s) for s in data.streams if len(s)])
    means = torch.stack([s.labels.double().mean() for s in data.streams if len(s)])
    return {
        "edges": len(counts),
        "events": int(counts.sum()),
        "smallest": int(counts.min()),
        "largest": int(counts.max()),
        "task": data.task,
        "mean": float(torch.cat([s.labels for s in data.streams]).double().mean()),
        "quantiles": torch.quantile(means, torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)).tolist(),
        "ids": {f.name: f.size for f in data.fields if f.kind == "id"},
    }


def parts(name: str) -> dict[str, Dataset]:
    """Load a data set; one of the repository's four as two parts."""
    load = CATALOG[name].load
    assert load is not None
    whole = load()
    if name not in EVENTS:
        return {name: whole}
    early = whole.first(EARLY_SHARE)
    later = whole.window(EVENTS[name] - sum(len(s) for s in early.streams))
    return {f"{name}, first quarter": early, f"{name}, the rest": later}


def main() -> None:
    """Describe and report."""
    args = arguments(__doc__ or "")
    names = [n for n in (*DEVELOPMENT, *REPORTING) if n.startswith("world-") or not args.quick]
    figures = {part: describe(data) for name in names for part, data in parts(name).items()}
    rows = []
    for name, one in figures.items():
        ids = ", ".join(f"{field} {size:,}" for field, size in one["ids"].items())
        sizes = f"{one['smallest']:,} to {one['largest']:,}"
        alike = " / ".join(f"{q:.3g}" for q in one["quantiles"])
        rows.append(
            [name, str(one["edges"]), f"{one['events']:,}", sizes, one["task"], f"{one['mean']:.3g}", alike, ids]
        )
    columns = ["data set", "edges", "events", "per edge", "task", "mean label", "edges, 10/50/90%", "ids"]
    report("Data sets", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
