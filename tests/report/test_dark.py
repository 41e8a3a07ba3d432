"""Figures for a dark page keep what they show."""

import io

import numpy as np
import polars as pl
from matplotlib.colors import to_rgb
from PIL import Image

from alphaedge.report import figures
from alphaedge.report.charts import make_chart, save
from alphaedge.report.dark import PAPER, dark_colour, darken
from alphaedge.report.styles import STYLES


def lightness(colour: object) -> float:
    return float(np.mean(to_rgb(colour)))  # type: ignore[arg-type]


def test_every_method_can_be_seen_in_the_dark() -> None:
    paper = lightness(PAPER)
    for style in STYLES.values():
        assert lightness(dark_colour(style.colour)[:3]) - paper > 0.25, style.name


def test_text_and_lines_are_light_and_points_stay_where_they_are() -> None:
    figure, axes = make_chart("a chart")
    [line] = axes.plot([1, 2], [3, 4], color="black")
    axes.set_xlabel("time")
    before = np.asarray(line.get_xydata()).tolist()
    darken(figure)
    assert np.asarray(line.get_xydata()).tolist() == before
    assert lightness(line.get_color()) > 0.8
    assert lightness(axes.xaxis.label.get_color()) > 0.8
    assert all(lightness(label.get_color()) > 0.8 for label in axes.get_xticklabels())
    assert lightness(axes.spines["left"].get_edgecolor()[:3]) > 0.8


def test_no_white_paper_is_left() -> None:
    table = pl.DataFrame(
        {"method": "nops", "seed": 0, "edge": [0, 1], "peer": [1, 0], "count": [1, 2], "time": 0.5}
        | {"aggregation": 0, "share": [0.5, 1.0]}
    )
    for figure in (figures.weight_matrix(table, "nops"), figures.who_pulls_from_whom(table, "nops")):
        darken(figure)
        drawn = io.BytesIO()
        save(figure, drawn, PAPER)
        pixels = np.asarray(Image.open(drawn).convert("RGB"))
        assert (pixels == 255).all(axis=2).mean() < 0.01
