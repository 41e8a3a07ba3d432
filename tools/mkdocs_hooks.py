"""What MkDocs runs while it builds the site: the list of decisions, the changelog, and equations as MathML."""

import html
import re
from pathlib import Path
from typing import Any, Final

from latex2mathml.converter import convert  # type: ignore[import-untyped, unused-ignore]

ROOT: Final = Path(__file__).parent.parent
INCLUDE: Final = "<!-- include: CHANGELOG.md -->"
EQUATION: Final = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """List all decisions in the navigation, in their order."""
    names = sorted(path.name for path in (Path(config.docs_dir) / "decisions").glob("*.md"))  # digits before letters
    for item in config.nav:
        if "Decisions" in item:
            item["Decisions"] = [f"decisions/{name}" for name in names]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Include the changelog, with its links made relative to docs/."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return markdown.replace(INCLUDE, changelog)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the equations as MathML, which browsers render without a script."""
    return EQUATION.sub(_as_mathml, html)


def _as_mathml(equation: re.Match[str]) -> str:
    display = "block" if equation[2] == "[" else "inline"
    drawn = str(convert(html.unescape(equation[3]).strip(), display=display))
    return f'<div class="equation">{drawn}</div>' if display == "block" else drawn
