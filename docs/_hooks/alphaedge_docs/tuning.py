"""The table of the page on tuning: measured by ``python docs/_hooks/measure.py``, kept in docs/how-to/tuning.csv."""

import csv
from pathlib import Path
from typing import Final

from alphaedge_docs.markdown import table

FILE: Final = Path(__file__).parent.parent.parent / "how-to" / "tuning.csv"
COLUMNS: Final = ("setting", "AUC", "difference", "with 25% hostile", "difference there", "fetched by an edge")


def page() -> str:
    """The table, as it was measured last."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [[row[c].replace(" ± ", "&nbsp;±&nbsp;") for c in COLUMNS] for row in csv.DictReader(file)]
    return table(COLUMNS, rows)
