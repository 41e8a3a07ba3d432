"""What MkDocs calls while it builds the site.

A line ``<!-- make: NAME ARGUMENT -->`` in a page is replaced by what the code says, so that no page can be behind it:
see ``MAKERS``. Equations become MathML.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs takes it away again once this file is loaded

from alphaedge_docs import (
    alerts,
    commands,
    http,
    maths,
    metrics,
    python_api,
    results,
    settings,
    source,
    structs,
    tuning,
)

ROOT: Final = Path(__file__).parent.parent.parent
MARK: Final = re.compile(r"(?m)^<!-- make: (\w[\w-]*)(?: ([\w./-]+))? -->$")


def _included(path: str) -> str:
    """A file of the repository, with its links as they are from a page in docs/."""
    return (ROOT / path).read_text(encoding="utf-8").replace("](docs/", "](")


MAKERS: Final[Mapping[str, Callable[..., str]]] = {
    "edge-config": settings.edge,
    "simulation-config": settings.simulation,
    "commands": commands.reference,
    "metrics": metrics.reference,
    "http": http.reference,
    "struct": structs.reference,
    "python-api": python_api.reference,
    "results-folder": results.reference,
    "source": source.lines,
    "tuning": tuning.page,
    "alerts": alerts.page,
    "include": _included,
}


def on_config(config: Any) -> Any:
    """Put every decision into the navigation, in their order: who writes one need not think of it."""
    folder = Path(config.docs_dir) / "decisions"
    found = sorted(path.name for path in folder.glob("*.md"))  # numbers come before letters
    for item in config.nav:
        if "Decisions" in item:
            item["Decisions"] = [f"decisions/{name}" for name in found]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what comes from the code."""
    return MARK.sub(lambda mark: MAKERS[mark[1]](*([mark[2]] if mark[2] else [])), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the equations."""
    return maths.as_mathml(html)
