"""The table of the guide to tuning, from docs/how-to/tuning.csv, which ``python -m tools.tuning`` measures."""

import csv
from pathlib import Path
from typing import Final

from tools.reference.markdown import table

FILE: Final = Path(__file__).parent.parent.parent / "docs" / "how-to" / "tuning.csv"
COLUMNS: Final = ("setting", "AUC", "difference", "with 25% hostile", "difference there", "pulled by an edge")


def section() -> str:
    """The table as it was measured last."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [[row[c].replace(" ± ", "&nbsp;±&nbsp;") for c in COLUMNS] for row in csv.DictReader(file)]
    return table(COLUMNS, rows)
