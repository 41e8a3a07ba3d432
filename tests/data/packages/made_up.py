"""Small packages in the published formats, with made-up content, for tests of the loaders."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from alphaedge import Dataset
from alphaedge.data.packages.package import Package


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def build(folder: Path, package: Package, members: Mapping[str, bytes]) -> Path:
    """Write the distribution file of a package whose members have these contents."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / package.file
    if package.is_wheel:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in members.items():
                zipped.writestr(f"{package.name}/data/{name}", content)
        return path
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"{package.name}-{package.version}/{package.name}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def load(module: ModuleType, members: Mapping[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Load a data set from a made-up package, whose checksums are taken for the right ones."""
    package = replace(module.PACKAGE, members={name: sha256(content) for name, content in members.items()})
    build(folder, package, members)
    monkeypatch.setenv("ALPHAEDGE_DATA", str(folder))
    monkeypatch.setattr(module, "PACKAGE", package)
    data: Dataset = module.load()
    return data
