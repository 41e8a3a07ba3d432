"""Figures as images inside a page: one for a light page and one for a dark one."""

import base64
import io
from typing import NamedTuple

from matplotlib.figure import Figure
from PIL import Image

from alphaedge.report.charts import save
from alphaedge.report.dark import PAPER, darken


class Images(NamedTuple):
    """A figure as two PNG files, in base64."""

    light: str
    dark: str


def encode(figure: Figure) -> Images:
    """Draw a figure twice. It keeps the colours for a dark page, so this comes after everything else."""
    light = _small_png(figure, "white")
    darken(figure)
    return Images(light, _small_png(figure, PAPER))


def _small_png(figure: Figure, paper: str) -> str:
    """Encode a figure as PNG with 128 colours: lines look the same in a quarter of the bytes."""
    exact, small = io.BytesIO(), io.BytesIO()
    save(figure, exact, paper)
    Image.open(exact).convert("RGB").quantize(128).save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")
