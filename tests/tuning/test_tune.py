"""``alphaedge tune``: it searches on the first part alone, keeps the defaults in doubt, and goes on where it ended."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import optuna
import polars as pl
import pytest
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.core.methods import method
from alphaedge.data.stream import Dataset
from alphaedge.data.table import Table
from alphaedge.simulation.config import Settings, load
from alphaedge.simulation.task import Task, run_task
from alphaedge.simulation.workers.protocol import Here
from alphaedge.tuning.late_scores import is_clear, late_score
from alphaedge.tuning.search import Search
from alphaedge.tuning.space import Knob
from alphaedge.tuning.tune import Tuning

from ..simulation.fleets import linear, measured, shop, shop_data

EDGES, EVENTS = 4, 400
COLUMNS = ["--time", "t", "--edge", "where", "--label", "y", "--number", "a", "--number", "b", "--task", "classify"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels that follow from two numbers, so that a model that is taught more often learns more."""
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(EDGES * EVENTS, generator=draw) for _ in range(2))
    rows = {
        "t": torch.arange(EVENTS).repeat(EDGES).tolist(),
        "where": [f"edge {e}" for e in range(EDGES) for _ in range(EVENTS)],
        "a": a.tolist(),
        "b": b.tolist(),
        "y": (a > 2 * b).int().tolist(),
    }
    file = tmp_path_factory.mktemp("table") / "events.parquet"
    pl.DataFrame(rows).write_parquet(file)
    return file


def tune(table: Path, out: Path, *args: str) -> Result:
    shared = ["--trials", "6", "--budget", "10m", "--jobs", "1", "--out", str(out)]
    return CliRunner().invoke(app, ["tune", "--table", str(table), *COLUMNS, *shared, *args])


@pytest.fixture(scope="module")
def first(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("tune") / "out"
    result = tune(table, out, "--vary", "rate,local_steps", "--json", str(out.parent / "summary.json"))
    assert result.exit_code == 0, result.output
    return out, result


def test_it_finds_settings_that_are_better_on_events_it_has_not_searched_on(first: tuple[Path, Result]) -> None:
    found = json.loads((first[0].parent / "summary.json").read_text())
    assert set(found["values"]) <= {"rate", "local_steps"}
    assert found["values"]["local_steps"] > 1
    assert found["on_rest"]["tuned"] > found["on_rest"]["defaults"]
    assert found["gain"] == pytest.approx(found["on_rest"]["tuned"] - found["on_rest"]["defaults"])


def test_simulate_takes_the_configuration_as_it_is(first: tuple[Path, Result]) -> None:
    settings = load(first[0] / "config.toml")
    found = json.loads((first[0] / "summary.json").read_text())
    assert settings.local_steps == found["values"]["local_steps"]
    assert settings.first is None
    done = CliRunner().invoke(app, ["simulate", "--config", str(first[0] / "config.toml"), "--jobs", "1"])
    assert done.exit_code == 0, done.output


def test_the_keys_of_an_edge_have_the_same_values(first: tuple[Path, Result]) -> None:
    found = json.loads((first[0] / "summary.json").read_text())
    edge = tomllib.loads((first[0] / "edge.toml").read_text())
    assert edge["model"].items() >= found["values"].items()
    assert {"batch_size", "rate", "id_rows"} <= edge["model"].keys(), "the defaults of an edge may be others"


def test_the_first_trial_is_the_defaults(first: tuple[Path, Result]) -> None:
    rows = pl.read_parquet(first[0] / "trials.parquet")
    default = Settings(data="table", table=Table(file="x", time="t", edge="where", label="y"))
    assert rows.row(0, named=True)["rate"] == default.model_rate
    assert rows.row(0, named=True)["local_steps"] == 1
    assert len(rows) == 6


def test_the_picture_is_there(first: tuple[Path, Result]) -> None:
    assert (first[0] / "tune.png").stat().st_size > 10_000
    assert (first[0] / "tune.svg").exists()


def test_a_search_goes_on_where_it_ended(first: tuple[Path, Result], table: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    out.mkdir()
    (out / "trials.journal").write_bytes((first[0] / "trials.journal").read_bytes())
    args = ("--vary", "rate,local_steps", "--trials", "7")
    assert "--resume" in tune(table, out, *args).output
    again = tune(table, out, *args, "--resume")
    assert again.exit_code == 0, again.output
    before, after = (pl.read_parquet(folder / "trials.parquet") for folder in (first[0], out))
    assert after.head(6).equals(before)
    assert len(after) == 7
    assert after.row(6)[1:3] not in [row[1:3] for row in before.rows()], "it tries something new"
    other = tune(table, out, "--vary", "rate", "--resume")
    assert other.exit_code == 2
    assert "a search with the same settings" in other.output


def test_no_event_after_the_part_has_a_say(table: Path, tmp_path: Path) -> None:
    """With other events after the first quarter, the trials score the same."""
    rows = pl.read_parquet(table)
    late = rows.with_columns(pl.when(pl.col("t") >= EVENTS // 4).then(-pl.col("y")).otherwise(pl.col("y")).alias("y"))
    other = tmp_path / "other.parquet"
    late.write_parquet(other)
    found = []
    for file in (table, other):
        settings = Settings(
            data="table",
            table=Table(file=str(file), time="t", edge="where", label="y", numbers=("a", "b"), task="regress"),
            methods=("noagg",),
        )
        tuning = Tuning(settings, Here(), part=0.25, vary=["rate"])
        journal = tmp_path / f"{file.stem}.journal"
        tuned = tuning.run(journal, budget=1e9, trials=2, clock=lambda: 0.0, report=lambda *_: None)
        found.append([t.score for t in tuned.trials])
    assert found[0] == found[1]


def test_every_store_of_the_synthetic_data_is_cut_at_its_own_events(tmp_path: Path) -> None:
    settings = Settings(store=shop(edges=3, events=400), batch_size=10, methods=("noagg",))
    tuning = Tuning(settings, Here(), part=0.25, vary=["rate"])
    asked: list[int] = []
    real = tuning._part

    def part(seed: int) -> Dataset:
        asked.append(seed)
        return real(seed)

    with mock.patch.object(tuning, "_part", part):
        tuning.run(tmp_path / "journal", budget=1e9, trials=1, clock=lambda: 0.0, report=lambda *_: None)
    assert set(asked) == {0, 1, 2}


def test_no_trial_begins_after_the_budget_is_spent(table: Path, tmp_path: Path) -> None:
    settings = Settings(
        data="table",
        table=Table(file=str(table), time="t", edge="where", label="y", numbers=("a", "b"), task="regress"),
        methods=("noagg",),
    )
    tuning = Tuning(settings, Here(), part=0.25, vary=["rate"])
    seconds = iter(range(10**6))
    tuned = tuning.run(
        tmp_path / "journal", budget=30, trials=None, clock=lambda: float(next(seconds)), report=lambda *_: None
    )
    assert next(seconds) < 60, "the clock, which moves when it is looked at, was not looked at for long"
    assert tuned.settings.size == settings.resolved().size


def test_in_doubt_the_defaults_stay() -> None:
    assert is_clear([0.71, 0.72, 0.70], [0.70, 0.70, 0.69])
    assert not is_clear([0.71, 0.60, 0.70], [0.70, 0.70, 0.69])
    assert not is_clear([None, 0.6], [0.5, 0.5])


def test_scores_do_not_depend_on_how_many_events_a_batch_has() -> None:
    """An untrained model predicts the same in batches of any size, so it must score the same."""
    data = shop_data(edges=2, events=400)
    found = []
    for size in (10, 20, 40):
        task = Task(Settings(batch_size=size, rate=1e-30, id_rate=1e-30), "m", method("noagg"), (0,), data, None)
        (run,), _ = run_task(replace(task, window=10))
        found.append(late_score(run, data.first(0.25), size))
    assert found[0] is not None
    assert found[1:] == pytest.approx([found[0]] * 2, abs=0.02)  # some batches begin earlier than others
    whole = replace(task, window=None)
    assert run_task(whole)[0][0].per_edge != run.per_edge


def test_a_journal_can_name_no_setting_that_the_search_does_not_vary(tmp_path: Path) -> None:
    """A results folder may come from anywhere, and some settings name code."""

    def search() -> Search:
        rate = Knob(key="rate", default=0.01, low=0.001, high=0.1)
        return Search(Settings(), "noagg", [rate], lambda _, __: 0.5, tmp_path / "journal", settling=5)

    search()
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
    study = optuna.load_study(study_name="tune", storage=storage)
    text = optuna.distributions.CategoricalDistribution(["os:abort"])
    number = optuna.distributions.FloatDistribution(0.001, 5.0)
    for params, kinds in (
        ({"rate": 0.02, "optimizer": "os:abort"}, {"rate": number, "optimizer": text}),
        ({"rate": "os:abort"}, {"rate": text}),
        ({"rate": 3.0}, {"rate": number}),
        ({"rate": 0.02}, {"rate": number}),
    ):
        study.add_trial(optuna.trial.create_trial(params=params, distributions=kinds, value=0.9))
    assert [trial.values for trial in search().trials()] == [{"rate": 0.02}]


def test_a_score_after_some_events_is_that_of_the_batches_that_begin_after_them() -> None:
    data, size = measured(2, [20, 10]), 5
    task = Task(Settings(batch_size=size), "m", method("noagg"), (0,), data, linear)
    (run,), _ = run_task(task)
    early = data.first(0.5)
    later = [
        run.scores.filter(edge=e)["score"][-(-len(stream) // size) :].mean() for e, stream in enumerate(early.streams)
    ]
    assert late_score(run, early, size) == pytest.approx(sum(later) / 2)
    assert late_score(replace(run, stopped=1), early, size) is None, "an edge that had to stop is no success"
    assert late_score(replace(run, honest=[True, False]), early, size) == pytest.approx(later[0])


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        (["--vary", "colour"], "vary: found 'colour'"),
        (["--vary", "clock"], "vary: found 'clock'"),
        (["--part", "1.5"], "part: found 1.5"),
        (["--part", "0.01"], "part: found 0.01"),
        (["--part", "0.99"], "part: found 0.99"),
        (["--budget", "soon"], "budget: found 'soon'"),
        (["--trials", "0"], "trials: found 0"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(table: Path, tmp_path: Path, args: list[str], wrong: str) -> None:
    result = tune(table, tmp_path / "out", *args)
    assert result.exit_code == 2
    assert wrong in result.output.replace("\n", " ")
