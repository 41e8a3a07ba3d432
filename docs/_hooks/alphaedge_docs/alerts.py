"""The alerts of ``deploy/``, for the page on monitoring."""

import re
from pathlib import Path
from typing import Final

import yaml  # type: ignore[import-untyped, unused-ignore]

from alphaedge_docs.markdown import table

FILE: Final = Path(__file__).parent.parent.parent.parent / "deploy" / "prometheus" / "alerts.yml"


def page() -> str:
    """Name, severity and meaning of each."""
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    rows = [(f"`{r['alert']}`", r["labels"]["severity"], _plain(r["annotations"]["summary"]), r["for"]) for r in rules]
    return table(("alert", "severity", "says", "after"), rows)


def _plain(text: str) -> str:
    """Without the template: what is filled in has its name instead."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: m[1].upper(), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", "...", text)
