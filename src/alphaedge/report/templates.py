"""The HTML templates of pages and reports."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(name: str, **values: Any) -> str:
    """Render a template of this package. Values are escaped unless the template says otherwise."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("alphaedge", "report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
