"""Equations as MathML, made when the site is built: browsers draw it by themselves."""

import html
import re

from latex2mathml.converter import convert

FOUND = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def as_mathml(page: str) -> str:
    """A page with its equations drawn."""
    return FOUND.sub(_drawn, page)


def _drawn(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    drawn = convert(html.unescape(match[3]).strip(), display=display)
    return f'<div class="equation">{drawn}</div>' if display == "block" else drawn
