"""The maps of the packages are current, and say what the imports say."""

import ast
import re
from typing import Any

import pytest

from tools.architecture import arrange, draw, outdated_maps, rank, read_imports, reduce_edges
from tools.reference.layers import section
from tools.reference.pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "alphaedge"


def test_the_maps_are_current() -> None:
    outdated = [path.name for path in outdated_maps()]
    assert not outdated, f"run `make reference` and commit what it writes: docs/images/{outdated}"


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert reduce_edges({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_a_box_is_above_all_that_it_imports() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert rank(graph) == {"a": 2, "b": 1, "c": 0, "d": 0}
    layout = arrange(graph)
    assert [name for row in layout.rows for name in row if ">" not in name] == ["a", "b", "c", "d"]
    assert ["a", "a>d>1", "d"] in layout.paths


def test_imports_in_a_circle_are_an_error() -> None:
    with pytest.raises(ValueError, match="a -> b -> a"):
        rank({"a": {"b"}, "b": {"a"}})


def test_modules_that_stand_on_no_package_are_shared() -> None:
    graph, shared = read_imports("alphaedge")
    assert "errors" in shared
    assert {"core", "edge", "simulation", "cli"} <= set(graph)
    assert not set(shared) & set(graph)


def test_a_map_is_drawn_the_same_each_time() -> None:
    graph, shared = read_imports("alphaedge.edge")
    reordered = {a: set(graph[a]) for a in sorted(graph, reverse=True)}
    assert draw(graph, shared, "alphaedge.edge") == draw(reordered, shared, "alphaedge.edge")


@pytest.mark.parametrize("package", ["alphaedge", "alphaedge.edge"])
def test_the_page_says_what_every_part_is_for(package: str) -> None:
    graph, shared = read_imports(package)
    named = set(re.findall(r"(?m)^\| `(\w+)` \| \S", PAGE))
    assert set(graph) <= named
    parts = {part for layer in re.split(r"[|\n]", section(package)) for part in [layer.strip()] if part.isidentifier()}
    assert set(graph) | set(shared) >= parts >= set(graph)


def test_the_functions_of_the_walks_are_where_the_page_says() -> None:
    steps = re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", PAGE)
    assert len(steps) > 40
    for file, name in steps:
        body: Any = ast.parse((SOURCE / file).read_text(encoding="utf-8")).body
        for part in name.split("."):
            found = [n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
            names = {n.name: n.body for n in found}
            assert part in names, f"{file} has no {name}"
            body = names[part]
