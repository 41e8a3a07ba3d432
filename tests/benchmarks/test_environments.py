"""Environments of other software: made once, kept while their packages stay the same, and a reason where they fail."""

from pathlib import Path

import pytest

from benchmarks import environments


@pytest.mark.long
def test_a_finished_environment_is_found_again(tmp_path: Path) -> None:
    packages = ("pip",)  # there already, so that nothing is downloaded
    made = environments.make(tmp_path / "new", packages)
    assert made.is_file()
    assert environments.find(tmp_path / "new", packages) == made
    assert list(environments.versions(made, packages)) == ["pip"]


def test_an_environment_with_other_versions_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "complete").write_text("flwr==1.0\n", encoding="utf-8")
    assert environments.find(tmp_path, ("flwr==1.0",)) is not None
    assert environments.find(tmp_path, ("flwr==2.0",)) is None


@pytest.mark.long
def test_an_installation_that_fails_is_not_taken_for_finished(tmp_path: Path) -> None:
    packages = (str(tmp_path / "no-such-folder"),)
    with pytest.raises(environments.SetUpError, match="no-such-folder"):
        environments.make(tmp_path / "broken", packages)
    assert environments.find(tmp_path / "broken", packages) is None


def test_the_reason_is_what_pip_calls_an_error() -> None:
    output = "WARNING: a mirror is slow\nERROR: No matching distribution found for x\n"
    assert environments.reason(output) == "No matching distribution found for x"
    assert environments.reason("killed\n") == "killed"
