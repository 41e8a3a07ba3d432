"""A page of text, tables and figures, written once and rendered as Markdown and as one HTML file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import final

from matplotlib.figure import Figure

from alphaedge.report.charts import save
from alphaedge.report.pictures import encode
from alphaedge.report.templates import render


@final
@dataclass(frozen=True)
class Heading:
    """A heading. Level 1 is the title of the page."""

    text: str
    level: int = 2


@final
@dataclass(frozen=True)
class Text:
    """A paragraph. Only ``**bold**`` and `` `code` `` are marked up."""

    text: str


@final
@dataclass(frozen=True)
class Grid:
    """A table. The first column is aligned left, the others right. Cells are marked up like ``Text``."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@final
@dataclass(frozen=True)
class Picture:
    """A figure, with a file name (without its ending) and an alternative text."""

    name: str
    alt: str
    figure: Figure


Block = Heading | Text | Grid | Picture


def markdown(blocks: Sequence[Block], images: str = "") -> str:
    """Render the page as Markdown. Pictures are PNG files in the folder ``images``."""
    parts = []
    for block in blocks:
        match block:
            case Heading():
                parts.append("#" * block.level + " " + block.text)
            case Text():
                parts.append(block.text)
            case Grid():
                rule = ["---"] + ["---:"] * (len(block.columns) - 1)
                parts.append("\n".join("| " + " | ".join(row) + " |" for row in (block.columns, rule, *block.rows)))
            case Picture():
                parts.append(f"![{block.alt}]({images}{block.name}.png)")
    return "\n\n".join(parts) + "\n"


def html(blocks: Sequence[Block], title: str) -> str:
    """Render the page as one HTML file that loads nothing."""
    parts = [(type(block).__name__, block) for block in blocks]
    return render("blocks.html", title=title, blocks=parts, inline=_inline, encode=encode)


def write(blocks: Sequence[Block], folder: Path, name: str, title: str) -> None:
    """Write ``name.md``, ``name.html``, and every picture as PNG and SVG."""
    for block in blocks:
        if isinstance(block, Picture):
            save(block.figure, folder / f"{block.name}.png")
            save(block.figure, folder / f"{block.name}.svg")
    (folder / f"{name}.md").write_text(markdown(blocks), encoding="utf-8")
    (folder / f"{name}.html").write_text(html(blocks, title), encoding="utf-8")


def _inline(text: str) -> str:
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)
