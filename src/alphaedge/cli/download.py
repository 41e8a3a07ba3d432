"""Download a data set's archive with a progress bar."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from alphaedge.data.archive import fetch, find
from alphaedge.simulation.catalog import CATALOG


def download(data: str, console: Console) -> None:
    """Download the archive of a data set, unless it has none or it is on this machine."""
    archive = CATALOG[data].archive
    if archive is None or find(archive) is not None:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(f"Downloading {archive.file}", total=None)
        fetch(archive, lambda done, total: bar.update(line, completed=done, total=total))
