"""Figures for a dark page: the same drawing, greys turned over and colours made light enough to be seen."""

import colorsys
from collections.abc import Sequence
from typing import Final

from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.typing import ColorType

PAPER: Final = "#16181b"  # that of page.html in the dark
GREY: Final = 0.15  # saturation below which a colour counts as grey
DARKEST, LIGHTEST = 0.096, 0.91  # lightness that white and black turn into
MIN_LIGHTNESS: Final = 0.55  # of colours

Rgba = tuple[float, float, float, float]


def dark_colour(colour: ColorType) -> Rgba:
    """Return what a colour on white paper becomes on dark paper.

    >>> [round(part, 2) for part in dark_colour("white")], [round(part, 2) for part in dark_colour("black")]
    ([0.1, 0.1, 0.1, 1.0], [0.91, 0.91, 0.91, 1.0])
    """
    red, green, blue, alpha = to_rgba(colour)
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    turned = LIGHTEST + lightness * (DARKEST - LIGHTEST) if saturation < GREY else max(lightness, MIN_LIGHTNESS)
    return (*colorsys.hls_to_rgb(hue, turned, saturation), alpha)


def darken(figure: Figure) -> None:
    """Change every colour of a figure, which is of no use on white paper afterwards."""
    figure.draw_without_rendering()  # so that all ticks are there
    for artist in figure.findobj():
        _darken(artist)


def _darken(artist: Artist) -> None:
    match artist:
        case Text():
            artist.set_color(dark_colour(artist.get_color()))
        case Line2D():
            face, rim = dark_colour(artist.get_markerfacecolor()), dark_colour(artist.get_markeredgecolor())
            artist.set_color(dark_colour(artist.get_color()))
            artist.set_markerfacecolor(face)
            artist.set_markeredgecolor(rim)
        case Patch():
            face, rim = dark_colour(artist.get_facecolor()), dark_colour(artist.get_edgecolor())
            artist.set_facecolor(face)
            artist.set_edgecolor(rim)
        case Collection() if artist.get_array() is None:
            faces, rims = _dark_colours(artist.get_facecolor()), _dark_colours(artist.get_edgecolor())
            artist.set_facecolor(faces)
            artist.set_edgecolor(rims)
        case AxesImage():
            [empty] = _dark_colours([artist.cmap(float("nan"))])
            artist.set_cmap(artist.cmap.reversed().with_extremes(bad=empty))
        case _:
            pass


def _dark_colours(colours: ColorType | Sequence[ColorType]) -> list[Rgba]:
    return [dark_colour((red, green, blue, alpha)) for red, green, blue, alpha in to_rgba_array(colours).tolist()]
