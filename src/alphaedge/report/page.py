"""A page of text, tables and pictures, written once and rendered as Markdown and as one HTML file."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import final

from matplotlib.figure import Figure
from PIL import Image

from alphaedge.report.figures import save


@final
@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the page's title."""

    text: str
    level: int = 2


@final
@dataclass(frozen=True)
class Text:
    """A paragraph. ``**bold**`` and `` `code` `` are understood, nothing else."""

    text: str


@final
@dataclass(frozen=True)
class Grid:
    """A table; the first column is to the left, the others to the right. Cells understand what ``Text`` does."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@final
@dataclass(frozen=True)
class Picture:
    """A figure, with a file name (without its ending) and a sentence for those who can't see it."""

    name: str
    alt: str
    figure: Figure


Block = Heading | Text | Grid | Picture


def markdown(blocks: Sequence[Block], images: str = "") -> str:
    """The page as Markdown; pictures are PNG files in the folder ``images``."""
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
    """The page as one HTML file that loads nothing."""
    parts = []
    for block in blocks:
        match block:
            case Heading():
                parts.append(f"<h{block.level}>{escape(block.text)}</h{block.level}>")
            case Text():
                parts.append(f"<p>{_inline(block.text)}</p>")
            case Grid():
                head = "".join(f"<th>{_inline(c)}</th>" for c in block.columns)
                body = "".join("<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in row) + "</tr>" for row in block.rows)
                parts.append(
                    '<div class="wide" tabindex="0"><table>'
                    f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
                )
            case Picture():
                data = base64.b64encode(_small(block.figure)).decode("ascii")
                parts.append(f'<figure><img alt="{escape(block.alt)}" src="data:image/png;base64,{data}"></figure>')
    return whole(title, "\n".join(parts))


def whole(title: str, body: str) -> str:
    """A page of this HTML, with the style that all pages have."""
    shell = resources.files("alphaedge.report").joinpath("page.html").read_text(encoding="utf-8")
    return shell.replace("{{ title }}", escape(title)).replace("{{ body }}", body)


def write(blocks: Sequence[Block], folder: Path, name: str, title: str) -> None:
    """Write ``name.md``, ``name.html`` and every picture as PNG and SVG."""
    for block in blocks:
        if isinstance(block, Picture):
            save(block.figure, folder / f"{block.name}.png")
            save(block.figure, folder / f"{block.name}.svg")
    (folder / f"{name}.md").write_text(markdown(blocks), encoding="utf-8")
    (folder / f"{name}.html").write_text(html(blocks, title), encoding="utf-8")


def _small(figure: Figure) -> bytes:
    """A figure as PNG in 128 colours: a quarter of the bytes, and lines look the same."""
    exact, small = io.BytesIO(), io.BytesIO()
    save(figure, exact)
    Image.open(exact).convert("RGB").quantize(128).save(small, "png", optimize=True)
    return small.getvalue()


def _inline(text: str) -> str:
    found = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", found)
