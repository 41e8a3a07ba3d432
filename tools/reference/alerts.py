"""The alert rules in ``deploy/``, for the guide to monitoring."""

import re
from pathlib import Path
from typing import Final

import yaml  # type: ignore[import-untyped, unused-ignore]

from tools.reference.markdown import table

FILE: Final = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "alerts.yml"


def section() -> str:
    """A table of alerts: name, severity, summary and how long the condition must hold."""
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    rows = [(f"`{r['alert']}`", r["labels"]["severity"], _plain(r["annotations"]["summary"]), r["for"]) for r in rules]
    return table(("alert", "severity", "summary", "after"), rows)


def _plain(text: str) -> str:
    """Put the name of a label, in capitals, in the place of its template."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: m[1].upper(), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", "...", text)
