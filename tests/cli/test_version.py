"""``alphaedge --version``."""

from importlib.metadata import version

from typer.testing import CliRunner

from alphaedge.cli import app


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"alphaedge {version('alphaedge')}\n")
