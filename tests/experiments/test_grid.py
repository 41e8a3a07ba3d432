"""Which settings a sweep varies: keys, values and the points that they span."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.errors import InvalidValue
from alphaedge.experiments.grid import full_key, nested, parse_variations, points


def test_values_are_written_as_in_toml_and_a_word_is_text() -> None:
    found = parse_variations(["rate=0.001,1e-2", "home=true,false", "attack=drift,collusion", "noisy_edges=[0,1],[2]"])
    assert found == {
        "rate": [0.001, 0.01],
        "method.home": [True, False],
        "conditions.attack": ["drift", "collusion"],
        "conditions.noisy_edges": [[0, 1], [2]],
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("peers", "KEY=VALUE"),
        ("peers=", "KEY=VALUE"),
        ("peers=2,2", "each value once"),
        ("peerz=2", "method.peers"),
        ("seeds=2,3", "--seeds"),
        ("methods=noagg", "--methods"),
    ],
)
def test_a_mistake_is_refused_with_what_is_allowed(text: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        parse_variations([text])


def test_a_key_is_varied_once_by_whatever_name() -> None:
    with pytest.raises(InvalidValue, match="already"):
        parse_variations(["peers=2", "method.peers=3"])


def test_a_short_key_means_the_one_setting_of_that_name() -> None:
    assert full_key("edges") == full_key("store.edges") == "store.edges"


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(), min_size=1, max_size=3, unique=True)))
def test_a_grid_has_every_combination_once(variations: dict[str, list[int]]) -> None:
    found = points(variations)
    size = 1
    for values in variations.values():
        size *= len(values)
    assert len(found) == size
    assert len({tuple(sorted(p.items())) for p in found}) == size
    assert all(p[key] in values for p in found for key, values in variations.items())


def test_values_taken_together_are_a_list_and_a_single_value_holds_for_all() -> None:
    assert points({"a": [1, 2], "b": [7], "c": [3, 4]}, together=True) == [
        {"a": 1, "b": 7, "c": 3},
        {"a": 2, "b": 7, "c": 4},
    ]
    with pytest.raises(InvalidValue, match="as many values"):
        points({"a": [1, 2], "b": [1, 2, 3]}, together=True)


def test_a_point_nests_as_a_configuration_file_does() -> None:
    assert nested({"method.peers": 2, "method.home": False, "rate": 0.1}) == {
        "method": {"peers": 2, "home": False},
        "rate": 0.1,
    }
