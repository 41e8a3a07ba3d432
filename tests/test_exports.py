"""The public API is frozen: a name that comes or goes is a decision, and this file has to say so."""

import ast
from importlib.metadata import version
from pathlib import Path

import pytest

import alphaedge

PUBLIC = {
    # simulate and what it takes
    "simulate", "Settings", "MethodSettings", "Conditions", "Results", "Verdict",
    # predict with what was learned
    "load", "Predictor",
    # data
    "Dataset", "Stream", "Field", "Store", "synthetic",
    # models
    "Model", "IdTable", "Loss", "Adagrad", "Adam", "SGD",
    # methods and their parts
    "methods", "Method",
    "Learned", "ByRecords", "Uniform", "Alone",
    "Greedy", "Random", "Everybody", "Fixed", "Nobody",
    "Home",
    # what a rule of your own is made of
    "Aggregation", "Mixing", "PeerMemory", "Weights", "Selection", "View", "Optimizer",
    # a live edge in one's own process
    "Edge",
    # errors
    "AlphaEdgeError", "InvalidValue", "ModelError", "RuleError",
}  # fmt: skip


def test_the_public_names_are_frozen() -> None:
    assert set(alphaedge.__all__) == PUBLIC
    assert len(alphaedge.__all__) == len(PUBLIC)


def test_every_public_name_exists_and_says_what_it_is() -> None:
    assert all(getattr(alphaedge, name).__doc__ for name in alphaedge.__all__)


def test_every_public_thing_lives_where_the_tables_say() -> None:
    assert {name: getattr(alphaedge, name).__module__ for name in alphaedge._MODULES} == alphaedge._MODULES
    assert {name: getattr(alphaedge, name).__name__ for name in alphaedge._SUBMODULES} == alphaedge._SUBMODULES


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(alphaedge.__file__).read_text(encoding="utf-8"))
    (block,) = [s for s in tree.body if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING"]
    seen = {n.asname: s.module for s in block.body if isinstance(s, ast.ImportFrom) for n in s.names}
    packages = {name: module.rpartition(".")[0] for name, module in alphaedge._SUBMODULES.items()}
    assert seen == alphaedge._MODULES | packages


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert set(dir(alphaedge)) == PUBLIC | {"__version__"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'alphaedge' has no attribute 'nonsense'"):
        alphaedge.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_package() -> None:
    assert alphaedge.__version__ == version("alphaedge")
