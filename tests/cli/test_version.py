"""What is installed says which version it is."""

from importlib.metadata import version

from typer.testing import CliRunner

from alphaedge.cli import app


def test_the_version_is_that_of_the_package() -> None:
    found = CliRunner().invoke(app, ["--version"])
    assert (found.exit_code, found.output) == (0, f"alphaedge {version('alphaedge')}\n")
