"""The data sets that go by a name: what they are, where they come from, and what they may be used for."""

from typing import Final

from alphaedge.experiments.suites import DATA_SETS, REPORTING, WHOLLY_DEVELOPMENT
from alphaedge.simulation.catalog import CATALOG, Source
from tools.reference.markdown import table

OTHER_CUTS: Final = ("completejourney-stores", "tafeng-areas")  # of data sets in DATA_SETS


def section() -> str:
    """Make a table of the catalog, and one of the packages that data sets are taken from."""
    rows = [
        [f"`{name}`", source.what, str(source.batch_size), ", ".join(source.models), _origin(source), _use(name)]
        for name, source in CATALOG.items()
    ]
    packages = {s.package.name: s.package for s in CATALOG.values() if s.package is not None}
    licences = [[f"{p.name} {p.version}", p.licence] for p in packages.values()]
    catalog = table(["name", "what", "batch size", "models", "origin", "used for"], rows)
    return f"{catalog}\n## Packages and their licences\n\n{table(['package', 'licence'], licences)}"


def _origin(source: Source) -> str:
    if source.package is not None:
        return f"package {source.package.name}"
    if source.archive is not None:
        return f"archive `{source.archive.file}`" + ("" if source.archive.url else ", by hand")
    return ""


def _use(name: str) -> str:
    if name in WHOLLY_DEVELOPMENT:
        return "development"
    if name in REPORTING:
        return "reporting only"
    return "first quarter: development; rest: reporting only" if name in (*DATA_SETS, *OTHER_CUTS) else ""
