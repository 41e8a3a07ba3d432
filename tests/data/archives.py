"""Small archives in the published formats, for tests of the loaders."""

import os
import zipfile
from pathlib import Path

import pytest
import torch

from alphaedge import Dataset

real = pytest.mark.skipif(
    not os.environ.get("ALPHAEDGE_DATA"), reason="ALPHAEDGE_DATA is not set to a folder with the archives"
)


def pack(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    """Write a zip file whose members have these paths."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for member, content in members.items():
            zipped.writestr(member, content)
    return path


def same(one: Dataset, two: Dataset) -> bool:
    """Tell whether two data sets are equal, bit for bit."""
    return one.fields == two.fields and all(
        torch.equal(a.labels, b.labels)
        and torch.equal(a.times, b.times)
        and all(torch.equal(a.inputs[f], b.inputs[f]) for f in a.inputs)
        for a, b in zip(one.streams, two.streams, strict=True)
    )
