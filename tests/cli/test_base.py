"""Expected errors become one line and exit code 2; a fault of the package stays a traceback."""

from pathlib import Path

import pytest
import typer

from alphaedge.cli.base import exit_on_error
from alphaedge.errors import AlphaEdgeError, InvalidValue


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvalidValue("delay", -1, "at least 0"), "error delay: found -1; allowed: at least 0"),
        (AlphaEdgeError("no answer"), "error no answer"),
        (FileNotFoundError(2, "No such file", "a.toml"), "error a.toml: No such file"),
        (OSError("the disk is full"), "error the disk is full"),
        (
            ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp"),
            "error aiohttp is not installed: pip install 'alphaedge[serve]'",
        ),
    ],
)
def test_an_expected_error_is_one_line_and_code_2(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, exit_on_error():
        raise error
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == line + "\n"


def test_a_missing_module_of_the_package_is_not_blamed_on_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError), exit_on_error():
        raise ModuleNotFoundError("No module named 'alphaedge.lost'", name="alphaedge.lost")


def test_an_exit_inside_passes(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit) as ended, exit_on_error():
        raise typer.Exit(7)
    assert ended.value.exit_code == 7
