"""The maps of the packages are current, and say what the imports say."""

import pytest

from tools.architecture import arrange, draw, outdated_maps, rank, read_imports, reduce_edges


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
