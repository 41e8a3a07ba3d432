"""Pages with generated sections: find them, and fill them in."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tools.reference import (
    alerts,
    commands,
    configuration,
    data_sets,
    http,
    layers,
    messages,
    metrics,
    results,
    source,
    tuning,
)

ROOT: Final = Path(__file__).parent.parent.parent
DOCS: Final = ROOT / "docs"
SECTION: Final = re.compile(
    r"^<!-- generated: (?P<name>[\w-]+)(?: (?P<argument>[\w.]+))? -->\n(?P<body>.*?)^<!-- end of generated -->$",
    re.DOTALL | re.MULTILINE,
)
SECTIONS: Final[Mapping[str, Callable[..., str]]] = {
    "alerts": alerts.section,
    "commands": commands.section,
    "data-sets": data_sets.section,
    "edge-config": configuration.edge_section,
    "http": http.section,
    "layers": layers.section,
    "message": messages.section,
    "metrics": metrics.section,
    "results-folder": results.section,
    "simulation-config": configuration.simulation_section,
    "source": source.section,
    "tuning": tuning.section,
}


def pages() -> Iterator[Path]:
    """The pages that have a generated section."""
    for path in [*sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md"]:
        if SECTION.search(path.read_text(encoding="utf-8")):
            yield path


def fill(text: str) -> str:
    """Replace what is between the comments by what the code says now."""

    def generate(section: re.Match[str]) -> str:
        arguments = [section["argument"]] if section["argument"] else []
        body = SECTIONS[section["name"]](*arguments).strip("\n")
        opening = section[0].partition("\n")[0]
        return f"{opening}\n\n{body}\n\n<!-- end of generated -->"

    return SECTION.sub(generate, text)


def strip_generated(text: str) -> str:
    """The hand-written part of a page."""
    return SECTION.sub("", text)


def outdated_pages() -> dict[Path, str]:
    """The pages whose generated sections are not what the code says, each with the text that it should have."""
    fresh = {path: (path.read_text(encoding="utf-8"), fill(path.read_text(encoding="utf-8"))) for path in pages()}
    return {path: new for path, (old, new) in fresh.items() if new != old}
