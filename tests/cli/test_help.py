"""Help texts repeat names and defaults of modules that they do not import: they must agree."""

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from alphaedge import Settings
from alphaedge.attacks.catalog import ATTACKS
from alphaedge.cli import app, choices
from alphaedge.core.methods import METHODS
from alphaedge.experiments.plan import EXPERIMENTS, OTHER_EXPERIMENTS
from alphaedge.experiments.suites import DATA_SETS, DEVELOPMENT, REPORTING
from alphaedge.settings import MethodSettings
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.config import TABLE_SEEDS
from alphaedge.simulation.pace import LARGEST_PERIOD, SMALLEST_PERIOD

ROOT: Any = typer.main.get_command(app)


def help_of(command: str, parameter: str) -> str:
    return next(p.help for p in ROOT.commands[command].params if p.name == parameter)


def default_in_help(command: str, parameter: str) -> str:
    return help_of(command, parameter).partition("Default: ")[2].rstrip(".")


def test_names_in_help_are_those_of_the_catalogs() -> None:
    assert tuple(METHODS) == choices.METHODS
    assert tuple(ATTACKS) == choices.ATTACKS
    assert tuple(CATALOG) == choices.DATA_SETS
    assert EXPERIMENTS == choices.EXPERIMENTS
    assert OTHER_EXPERIMENTS == choices.OTHER_EXPERIMENTS
    assert DATA_SETS == choices.PAPER_DATA_SETS
    assert DEVELOPMENT == choices.DEVELOPMENT_DATA_SETS
    assert REPORTING == choices.REPORTING_DATA_SETS


@pytest.mark.parametrize(
    ("command", "parameter", "names"),
    [
        ("simulate", "methods", METHODS),
        ("simulate", "data", CATALOG),
        ("replay", "data", CATALOG),
        ("demo", "data", CATALOG),
        ("reproduce", "experiments", (*EXPERIMENTS, *OTHER_EXPERIMENTS)),
        ("reproduce", "data", DEVELOPMENT),
    ],
)
def test_help_lists_every_name(command: str, parameter: str, names: Any) -> None:
    listed = set(re.findall(r"[\w-]+", help_of(command, parameter)))
    assert set(names) <= listed


def test_models_that_help_names_are_models_of_that_data_set() -> None:
    assert "mlp or change for airquality" in help_of("simulate", "model")
    assert set(CATALOG["airquality"].models) == {"mlp", "change"}


def test_defaults_that_help_states_are_those_of_the_settings() -> None:
    settings = Settings()
    assert default_in_help("simulate", "data") == settings.data
    assert default_in_help("simulate", "seeds") == f"{TABLE_SEEDS} for a table, else {settings.runs}"
    assert default_in_help("simulate", "clock") == settings.clock
    assert default_in_help("simulate", "executor") == settings.executor
    for command in ("simulate", "replay"):
        assert default_in_help(command, "edges") == str(settings.store.edges)
        assert default_in_help(command, "events") == str(settings.store.events)
    for name in ("delay", "staleness", "drop", "adversaries", "label_noise"):
        assert default_in_help("simulate", name) == f"{getattr(settings.conditions, name):g}"


def test_defaults_of_the_method_are_those_of_alphaedge() -> None:
    method: Any = MethodSettings().apply("alphaedge")
    period = f"{SMALLEST_PERIOD} to {LARGEST_PERIOD} for a table"
    assert default_in_help("simulate", "aggregate_every") == f"{method.aggregate_every}; {period}"
    assert default_in_help("simulate", "peers") == str(method.selection.peers)
    assert default_in_help("simulate", "replace") == str(method.selection.replace)
    assert default_in_help("simulate", "select_every") == str(method.selection.every)


def test_a_flag_may_be_left_unset() -> None:
    """Flags without a default stay None in commands: --home and --no-home override, neither does not."""
    (home,) = [p for p in ROOT.commands["simulate"].params if p.name == "home"]
    CliRunner().invoke(app, ["simulate", "--help"])
    assert home.default is None
