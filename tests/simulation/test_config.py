"""Settings say what they refuse, and a configuration file gives a simulation again."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from alphaedge import (
    Conditions,
    Fixed,
    Greedy,
    Home,
    InvalidValue,
    Learned,
    MethodSettings,
    Nobody,
    Random,
    Settings,
    Store,
)
from alphaedge.core.methods import METHODS, noagg
from alphaedge.errors import AlphaEdgeError, RuleError
from alphaedge.simulation.config import build, load


def refusal(raw: dict[str, Any]) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        build(raw)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "field", "found", "allowed"),
    [
        ({"methods": ["magic"]}, "methods", "magic", "one of alphaedge"),
        ({"methods": []}, "methods", [], "at least one of"),
        ({"methods": ["noagg", "noagg"]}, "methods", ["noagg", "noagg"], "once"),
        ({"method": {"peers": 0}}, "peers", 0, "at least 1"),
        ({"method": {"replace": -1}}, "replace", -1, "at least 0"),
        ({"method": {"aggregate_every": 0}}, "aggregate_every", 0, "at least 1"),
        ({"method": {"weight_rate": 0.0}}, "weight rate", 0.0, "above 0"),
        ({"conditions": {"delay": -1}}, "delay", -1, "at least 0"),
        ({"conditions": {"drop": 1.5}}, "drop", 1.5, "from 0 to 1"),
        ({"seeds": 0}, "seeds", 0, "at least 1"),
        ({"batch_size": 0}, "batch_size", 0, "at least 1"),
        ({"local_steps": 0}, "local_steps", 0, "at least 1"),
        ({"rate": 0.0}, "rate", 0.0, "above 0"),
        ({"rate": float("nan")}, "rate", float("nan"), "number"),
        ({"store": {"edges": 0}}, "edges", 0, "at least 1"),
        ({"data": "movies"}, "data", "movies", "one of"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_field_found_and_allowed(
    raw: dict[str, Any], field: str, found: Any, allowed: str
) -> None:
    error = refusal(raw)
    assert error.field == field
    assert error.found == pytest.approx(found, nan_ok=True) if isinstance(found, float) else error.found == found
    assert allowed in error.allowed


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"seedz": 1}, "seedz"),
        ({"store": {"edgez": 1}}, "store.edgez"),
        ({"conditions": {"delays": 1}}, "conditions.delays"),
    ],
)
def test_an_unknown_key_is_refused_with_those_that_are_known(raw: dict[str, Any], key: str) -> None:
    error = refusal(raw)
    assert error.field == f"config key {key}"
    assert error.found == 1
    assert error.allowed.startswith("one of ")


@pytest.mark.parametrize(
    ("raw", "field", "found"),
    [
        ({"seeds": "many"}, "seeds", "many"),
        ({"seeds": 1.5}, "seeds", 1.5),
        ({"seeds": True}, "seeds", True),
        ({"store": 3}, "store", 3),
        ({"methods": "noagg"}, "methods", "noagg"),
        ({"conditions": {"delay": "long"}}, "conditions.delay", "long"),
        ({"method": {"home": 3}}, "method.home", 3),
        ({"conditions": {"noisy_edges": 5}}, "conditions.noisy_edges", 5),
    ],
)
def test_a_value_of_another_type_is_refused(raw: dict[str, Any], field: str, found: Any) -> None:
    error = refusal(raw)
    assert (error.field, error.found) == (field, found)
    assert error.allowed


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({"methods": ["noagg", 3]}, 3),
        ({"conditions": {"noisy_edges": [0, 1.5]}}, 1.5),
        ({"conditions": {"joins": {"1": "soon"}}}, "soon"),
        ({"conditions": {"joins": {"north": 0.5}}}, "north"),
    ],
)
def test_a_wrong_value_inside_a_list_or_table_is_shown(raw: dict[str, Any], found: Any) -> None:
    error = refusal(raw)
    assert error.found == found
    assert "$" not in error.field
    assert "`" not in error.field


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("id_rows", ["adagrad", "lazy", "dense"]),
        ("clock", ["event-time", "batch-index"]),
        ("initial", ["shared", "different"]),
        ("executor", ["stacked", "one-at-a-time"]),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(field: str, choices: list[str]) -> None:
    """From a file and from Python alike."""
    error = refusal({field: "other"})
    assert (error.field, error.found) == (field, "other")
    assert all(choice in error.allowed for choice in choices)
    with pytest.raises(InvalidValue) as caught:
        Settings(**{field: "other"})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_whole_numbers_written_as_floats_are_whole_numbers() -> None:
    """2.0 is refused or taken for 2, but does not get in as it is."""
    assert build({"seeds": 2.0}).seeds == 2
    try:
        settings = Settings(seeds=2.0, conditions=Conditions(delay=2.0))  # type: ignore[arg-type]
    except InvalidValue:
        return
    assert isinstance(settings.seeds, int)
    assert isinstance(settings.conditions.delay, int)


EVERYTHING = Settings(
    methods=("alphaedge", "noagg"),
    seeds=2,
    batch_size=7,
    rate=0.02,
    local_steps=2,
    id_rows="dense",
    id_rate=0.3,
    clock="batch-index",
    initial="different",
    executor="one-at-a-time",
    store=Store(edges=5, events=99, appeal=2.5, seed=3),
    method=MethodSettings(aggregate_every=9, peers=2, weight_batches=2, home=False, newcomer=0.25),
    conditions=Conditions(
        delay=1, staleness=2, drop=0.1, noisy_edges=(1, 2), label_noise=0.1, joins={1: 0.25}, leaves={2: 0.5, 1: 0.75}
    ),
)


@pytest.mark.parametrize("settings", [Settings(), EVERYTHING], ids=["defaults", "everything"])
def test_settings_written_as_toml_give_the_same_settings(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(settings.toml())
    assert load(tmp_path / "c.toml") == settings


def test_what_is_given_beside_the_file_wins(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(EVERYTHING.toml())
    found = load(path, {"seeds": 4, "store": {"edges": 6}, "conditions": {"delay": 0}})
    assert (found.seeds, found.store.edges, found.conditions.delay) == (4, 6, 0)
    assert (found.batch_size, found.store.events, found.conditions.staleness) == (7, 99, 2)


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("")
    assert load(path) == Settings()


@pytest.mark.parametrize("content", [b"seeds = ", b"\xff\xfe\x00"])
def test_a_file_that_is_no_toml_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidValue) as caught:
        load(path)
    assert (caught.value.field, caught.value.found) == ("config", str(path))
    assert "TOML" in caught.value.allowed


@pytest.mark.parametrize("missing", ["nowhere.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(missing: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        load(tmp_path / missing)
    assert caught.value.field == "config"
    assert "readable" in caught.value.allowed


def test_the_written_file_holds_no_empty_values() -> None:
    assert "method" in tomllib.loads(EVERYTHING.toml())
    assert "None" not in Settings().toml()


def test_without_overrides_every_method_is_as_it_comes() -> None:
    for name, make in METHODS.items():
        assert MethodSettings().apply(name) == make()


def test_overrides_reach_the_methods_that_have_them() -> None:
    over = MethodSettings(
        aggregate_every=30, peers=2, replace=2, select_every=3, weight_rate=0.5, weight_steps=4, newcomer=0.1,
        remember=False, weight_batches=3, train_on_aggregation=False, adopt_rows=False, home=False,
    )  # fmt: skip
    greedy = over.apply("alphaedge")
    assert isinstance(greedy.selection, Greedy)
    assert (greedy.selection.peers, greedy.selection.replace, greedy.selection.every) == (2, 2, 3)
    assert isinstance(greedy.aggregation, Learned)
    rule = greedy.aggregation
    assert (rule.rate, rule.steps, rule.newcomer, rule.remember, rule.weight_batches) == (0.5, 4, 0.1, False, 3)
    assert (greedy.aggregate_every, greedy.train_on_aggregation, greedy.adopt_rows, greedy.home) == (
        30,
        False,
        False,
        None,
    )
    drawn = over.apply("randps").selection
    assert isinstance(drawn, Random)
    assert (drawn.peers, drawn.every) == (2, 3)
    fixed = over.apply("fedweight")
    assert isinstance(fixed.selection, Fixed)
    assert (fixed.selection.peers, fixed.selection.every, fixed.aggregate_every) == (2, 3, 30)
    assert over.apply("noagg") == noagg(aggregate_every=30, selection=Nobody(every=3))


@pytest.mark.parametrize("name", ["alphaedge-paper", "randps-paper", "nops-paper"])
def test_literal_readings_stay_literal(name: str) -> None:
    over = MethodSettings(
        weight_rate=0.5, weight_steps=4, newcomer=0.1, remember=True, weight_batches=3, train_on_aggregation=True,
        adopt_rows=True, home=True,
    )  # fmt: skip
    assert over.apply(name) == METHODS[name]()


def test_home_can_be_asked_for() -> None:
    assert MethodSettings(home=True).apply("alphaedge").home == (METHODS["alphaedge"]().home or Home())


@pytest.mark.parametrize("every", [1, 2, 5, 200])
def test_any_aggregation_period_goes_with_the_defaults(every: int) -> None:
    """Also one shorter than the weight batches by default."""
    for name in METHODS:
        assert MethodSettings(aggregate_every=every).apply(name).aggregate_every == every


# -- import paths in files --

MARK = "mark_of_an_import"  # a module that nothing imports but a path that is followed


def results_folder(folder: Path, config: str) -> Path:
    """A configuration beside a summary: a results folder, which may come from anywhere."""
    (folder / "summary.json").write_text("{}")
    (folder / "config.toml").write_text(config)
    return folder / "config.toml"


@pytest.mark.parametrize(
    ("config", "field", "found"),
    [
        (f'methods = ["noagg", "m={MARK}:make"]', "methods", [f"m={MARK}:make"]),
        (f'optimizer = "{MARK}:make"', "optimizer", f"{MARK}:make"),
        (f'[method]\naggregation = "{MARK}:make"', "method.aggregation", f"{MARK}:make"),
        (f'[method]\nselection = "{MARK}:make"', "method.selection", f"{MARK}:make"),
    ],
)
def test_an_import_path_from_a_results_folder_is_refused_before_anything_is_imported(
    config: str, field: str, found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{MARK}.py").write_text("def make(): pass")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop(MARK, None)  # pytest has looked for doctests in it
    path = results_folder(tmp_path, config)
    with pytest.raises(InvalidValue) as caught:
        load(path)
    assert (caught.value.field, caught.value.found) == (field, found)
    assert "results folder" in caught.value.allowed
    assert MARK not in sys.modules
    with pytest.raises(InvalidValue):
        load(path, {"seeds": 2, "methods": ["alphaedge"]} if field != "methods" else {"seeds": 2})
    assert MARK not in sys.modules
    (tmp_path / "summary.json").unlink()
    with pytest.raises(AlphaEdgeError):  # a file of the operator's own is believed: it is imported, and makes nothing
        load(path)
    assert sys.modules.pop(MARK)


def test_an_import_path_beside_a_results_folder_is_given_again(tmp_path: Path) -> None:
    paths = {"aggregation": "tests.own_rules:Familiar", "selection": "tests.own_rules:NextInLine"}
    settings = Settings(
        methods=("alphaedge", "tests.own_rules:median"),
        optimizer="tests.own_rules:SignDescent",
        method=MethodSettings(aggregate_every=7, **paths),
    )
    path = results_folder(tmp_path, settings.toml())
    given: dict[str, Any] = {"methods": ["alphaedge", "tests.own_rules:median"], "method": paths}
    assert load(path, given | {"optimizer": "tests.own_rules:SignDescent"}) == settings
    with pytest.raises(InvalidValue, match="optimizer"):
        load(path, given)
    other = load(path, given | {"optimizer": "tests.own_rules:SignDescent", "methods": ["tests.own_rules:familiar"]})
    assert other.methods == ("tests.own_rules:familiar",)


def test_a_results_folder_without_import_paths_is_read_like_any_file(tmp_path: Path) -> None:
    assert load(results_folder(tmp_path, EVERYTHING.toml())) == EVERYTHING


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"method": {"aggregation": "tests.nowhere:Rule"}}, "method.aggregation"),
        ({"method": {"selection": "NextInLine"}}, "method.selection"),
        ({"methods": ["tests.nowhere:method"]}, "methods"),
        ({"methods": ["tests.own_rules:Median"]}, "methods"),
        ({"optimizer": "tests.own_rules:nothing"}, "optimizer"),
    ],
)
def test_an_import_path_that_leads_nowhere_is_refused_by_field(raw: dict[str, Any], field: str) -> None:
    assert refusal(raw).field == field


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"method": {"aggregation": "tests.own_rules:NextInLine"}}, "aggregation"),
        ({"method": {"selection": "tests.own_rules:Median"}}, "selection"),
        ({"optimizer": "tests.own_rules:Median"}, "optimizer"),
    ],
)
def test_what_is_no_rule_is_refused_by_field(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(RuleError, match=rf"^{field}: \w+ is not a rule of this kind"):
        build(raw)
