"""What a simulation leaves behind: a summary that adds up, tidy tables, and a folder that gives it all again."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from alphaedge import Conditions, InvalidValue, MethodSettings, Results, simulate
from alphaedge.core.methods import noagg
from alphaedge.report.charts import ShownFigure
from alphaedge.scoring import interval95
from alphaedge.simulation.config import load
from alphaedge.simulation.results import writable

from .fleets import linear, linear_bce, measured, predictions, seen, shop

SIZE = 5
TOP = {
    "data",
    "task",
    "metric",
    "predicts",
    "edges",
    "names",
    "clusters",
    "adversaries",
    "interrupted",
    "messages",
    "methods",
}
TOP |= {"loss", "baselines", "verdict"}
ROW = {"mean", "ci95", "per_edge", "per_seed", "pooled", "loss", "bytes", "edge_batches_per_second"}


@pytest.fixture(scope="module")
def regressed() -> Results:
    return simulate(
        methods=["alphaedge", "uniweight", "noagg"],
        data=measured(3, [20, 24, 30]),
        model=linear,
        rate=0.05,
        seeds=3,
        batch_size=SIZE,
        executor="one-at-a-time",
        method=MethodSettings(aggregate_every=5, weight_batches=1, weight_steps=2),
    )


@pytest.fixture(scope="module")
def sold() -> Results:
    return simulate(
        methods=["alphaedge", "noagg"],
        store=shop(events=80),
        seeds=2,
        batch_size=SIZE,
        executor="one-at-a-time",
        method=MethodSettings(aggregate_every=5, weight_batches=1, weight_steps=2),
        conditions=Conditions(adversaries=0.34, delay=1),
    )


@pytest.fixture(scope="module")
def folder(sold: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sold.save(tmp_path_factory.mktemp("results") / "deep" / "down")


def test_the_summary_has_the_documented_keys(regressed: Results) -> None:
    summary = regressed.summary()
    assert set(summary) == TOP
    assert set(summary["methods"]) == {"alphaedge", "uniweight", "noagg"}
    for row in summary["methods"].values():
        assert set(row) == ROW
        assert set(row["bytes"]) == {"full", "common", "changed"}
        assert (len(row["per_edge"]), len(row["per_seed"])) == (3, 3)
        assert row["edge_batches_per_second"] > 0
    assert (summary["data"], summary["task"], summary["metric"]) == ("measured", "regress", "1-SMAPE")
    assert (summary["edges"], summary["clusters"], summary["interrupted"]) == (3, None, False)


def test_the_summary_is_plain_values(sold: Results) -> None:
    summary = sold.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_means_are_over_batches_then_edges_then_seeds(regressed: Results) -> None:
    for name, row in regressed.summary()["methods"].items():
        scores = regressed.scores.filter(pl.col("method") == name)
        by_edge = scores.group_by("seed", "edge").agg(pl.col("score").mean())
        by_seed = by_edge.group_by("seed").agg(pl.col("score").mean()).sort("seed")["score"].to_list()
        assert row["per_seed"] == pytest.approx(by_seed)
        assert row["mean"] == pytest.approx(sum(by_seed) / 3)
        assert row["ci95"] == pytest.approx(interval95(by_seed))
        # The streams differ in length, so the mean over all batches at once is another number.
        assert abs(row["mean"] - scores["score"].mean()) > 1e-6
        over_seeds = by_edge.group_by("edge").agg(pl.col("score").mean()).sort("edge")["score"].to_list()
        assert row["per_edge"] == pytest.approx(over_seeds)


def test_batches_without_a_score_stay_out_of_the_mean(sold: Results) -> None:
    scores = sold.scores.filter((pl.col("method") == "noagg") & (pl.col("seed") == 0) & (pl.col("edge") == 0))
    assert scores["score"].is_null().any()  # batches of five with one class only
    assert not scores["score"].is_nan().any()
    per_edge = [o.per_edge[0] for o in sold.outcomes("noagg") if o.seed == 0]
    assert per_edge == [pytest.approx(scores["score"].mean())]


def test_one_run_has_no_interval() -> None:
    found = simulate(methods=["noagg"], data=measured(2, 4), model=linear, batch_size=SIZE, executor="one-at-a-time")
    assert found.summary()["methods"]["noagg"]["ci95"] is None


def test_scores_are_tidy(regressed: Results) -> None:
    scores = regressed.scores
    assert scores.columns == ["method", "seed", "edge", "batch", "time", "score"]
    assert scores.schema["seed"] == scores.schema["edge"] == scores.schema["batch"] == pl.Int64
    assert scores.schema["time"] == scores.schema["score"] == pl.Float64
    assert len(scores) == 3 * 3 * (20 + 24 + 30)
    assert not scores.select("method", "seed", "edge", "batch").is_duplicated().any()
    assert scores["time"].min() == 0
    assert scores["time"].max() == 1
    assert scores["score"].is_between(0, 1).all()


def test_the_shares_of_every_mix_add_up_to_one(regressed: Results) -> None:
    weights = regressed.weights
    assert weights.columns == ["method", "seed", "edge", "aggregation", "time", "peer", "share"]
    assert set(weights["method"]) == {"alphaedge", "uniweight"}
    total = weights.group_by("method", "seed", "edge", "aggregation").agg(pl.col("share").sum())["share"]
    assert total.to_list() == pytest.approx([1.0] * len(total), abs=1e-6)
    assert weights["share"].min() >= 0


def test_the_table_of_pulls_counts_every_peer_of_every_edge(regressed: Results) -> None:
    pulls = regressed.pulls
    assert pulls.columns == ["method", "seed", "edge", "peer", "count", "bytes"]
    assert not (pulls["edge"] == pulls["peer"]).any()
    # Two weights and a bias, published in int8 with one scale.
    assert pulls["bytes"].to_list() == [5 * count for count in pulls["count"]]


def test_pooled_score_and_loss_are_over_all_predictions_of_an_edge() -> None:
    data = measured(2, 12, task="classify")
    found = seen(methods=["noagg"], data=data, model=linear_bce, batch_size=SIZE, executor="one-at-a-time")
    row = found.results.summary()["methods"]["noagg"]
    pairs = [(data.streams[e].labels.numpy(), predictions(found.world, e).flatten().numpy()) for e in range(2)]
    assert row["pooled"] == pytest.approx(sum(roc_auc_score(y, p) for y, p in pairs) / 2)
    assert row["loss"] == pytest.approx(sum(log_loss(y, p) for y, p in pairs) / 2, rel=1e-5)
    assert row["pooled"] != pytest.approx(row["mean"], abs=1e-6)


def test_the_loss_of_a_regression_is_in_the_unit_of_the_label() -> None:
    data = measured(2, 12)
    found = seen(methods=["noagg"], data=data, model=linear, batch_size=SIZE, executor="one-at-a-time")
    errors = [float((data.streams[e].labels - predictions(found.world, e).flatten()).square().mean()) for e in range(2)]
    summary = found.results.summary()
    assert summary["loss"] == "RMSE"
    assert summary["methods"]["noagg"]["loss"] == pytest.approx(sum(e**0.5 for e in errors) / 2, rel=1e-5)


def test_every_table_names_edges_and_peers() -> None:
    names = ("Oslo", "Rome", "Bonn")
    found = simulate(
        methods=["uniweight"],
        data=replace(measured(3, 6), names=names),
        model=linear,
        batch_size=SIZE,
        method=MethodSettings(aggregate_every=2),
    )
    assert found.scores.columns == ["method", "seed", "edge", "edge_name", "batch", "time", "score"]
    assert found.weights.columns[2:4] == ["edge", "edge_name"]
    assert found.pulls.columns == ["method", "seed", "edge", "edge_name", "peer", "peer_name", "count", "bytes"]
    for table in (found.scores, found.weights, found.pulls):
        for number in {"edge", "peer"} & set(table.columns):
            assert table[f"{number}_name"].to_list() == [names[n] for n in table[number]]


def test_the_verdict_is_of_alphaedge_or_of_what_else_was_run(regressed: Results) -> None:
    verdict = regressed.verdict()
    assert verdict is not None
    rows = regressed.summary()["methods"]
    assert verdict.method == "alphaedge"
    assert verdict.gain == pytest.approx(rows["alphaedge"]["mean"] - rows["noagg"]["mean"])
    assert [r.gain for r in verdict.regions] == pytest.approx(
        [a - b for a, b in zip(rows["alphaedge"]["per_edge"], rows["noagg"]["per_edge"], strict=True)]
    )
    assert verdict.rounds == 4
    assert regressed.summary()["verdict"] == verdict.plain()
    other = regressed.verdict("uniweight")
    assert other is not None
    assert other.method == "uniweight"
    with pytest.raises(InvalidValue, match="nobody"):
        regressed.verdict("nobody")


def test_there_is_no_verdict_without_learning_alone() -> None:
    found = simulate(methods=["uniweight"], data=measured(2, 4), model=linear, batch_size=SIZE)
    assert found.verdict() is None
    assert found.summary()["verdict"] is None


def test_a_notebook_shows_the_verdict_and_the_table(regressed: Results) -> None:
    page = regressed._repr_html_()
    assert "over learning alone" in page
    assert "RMSE" in page
    assert "running mean" in page


def test_the_folder_holds_everything(folder: Path) -> None:
    files = {f.name for f in folder.iterdir()}
    tables = {"scores.parquet", "weights.parquet", "pulls.parquet"}
    pictures = {"scores-over-time.png", "scores-per-edge.png", "weights-over-time.png", "pulls.png"}
    assert files == {"summary.json", "config.toml", "report.html"} | tables | pictures
    for picture in pictures:
        content = (folder / picture).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5_000


def test_the_saved_summary_is_the_summary(folder: Path, sold: Results) -> None:
    assert json.loads((folder / "summary.json").read_text()) == sold.summary()


def test_the_saved_tables_are_the_tables(folder: Path, sold: Results) -> None:
    assert pl.read_parquet(folder / "scores.parquet").equals(sold.scores)
    assert pl.read_parquet(folder / "weights.parquet").equals(sold.weights)
    assert pl.read_parquet(folder / "pulls.parquet").equals(sold.pulls)


def test_the_saved_configuration_gives_the_same_simulation(folder: Path, sold: Results) -> None:
    settings = load(folder / "config.toml")
    assert settings == sold.settings
    assert simulate(settings).scores.equals(sold.scores)


def test_a_configuration_that_cannot_name_everything_says_so(tmp_path: Path) -> None:
    found = simulate(methods={"mine": noagg()}, data=measured(2, 4), model=linear, batch_size=5)
    text = (found.save(tmp_path) / "config.toml").read_text()
    assert text.startswith("# This simulation was given its data and model and methods from Python")
    assert load(tmp_path / "config.toml") == found.settings


def test_the_report_loads_nothing_from_elsewhere(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!data:|#)[^"'\s>]""", page)
    assert "@import" not in page
    assert "url(http" not in page
    assert "<script" not in page or "src=" not in page
    assert page.count("data:image/") >= 4
    assert "alphaedge" in page.lower()


def test_results_without_a_mix_can_be_saved(tmp_path: Path) -> None:
    found = simulate(methods=["noagg"], data=measured(2, 4), model=linear, batch_size=SIZE, executor="one-at-a-time")
    found.save(tmp_path)
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "pulls.png").exists()


def test_results_without_a_finished_run_can_be_saved(tmp_path: Path) -> None:
    def stop(name: str, progress: Any) -> None:
        raise KeyboardInterrupt

    found = simulate(
        methods=["noagg"],
        data=measured(2, 4),
        model=linear,
        batch_size=SIZE,
        watch=lambda n, p: stop(n, p) if n else None,
    )
    found.save(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["interrupted"] is True
    assert pl.read_parquet(tmp_path / "scores.parquet").is_empty()


def test_a_plot_is_a_figure_that_can_be_looked_at(regressed: Results) -> None:
    assert regressed.plot().axes


def test_a_notebook_shows_figures_without_pyplot(regressed: Results) -> None:
    figures = [regressed.plot(), *(figure for _, _, figure in regressed.pictures())]
    shown = [figure._repr_png_() for figure in figures if isinstance(figure, ShownFigure)]
    assert len(shown) == len(figures) >= 3
    assert all(png.startswith(b"\x89PNG") for png in shown)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidValue) as caught:
            writable(wrong)
        assert (caught.value.field, caught.value.found) == ("out", str(wrong))
        assert "folder" in caught.value.allowed


def test_a_folder_that_can_be_written_is_left_empty(tmp_path: Path) -> None:
    assert list(writable(tmp_path / "a" / "b").iterdir()) == []


def test_many_may_check_the_same_folder_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(writable, [tmp_path] * 2000)) == {tmp_path}
