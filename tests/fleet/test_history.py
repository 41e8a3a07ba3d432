"""Edges that start from a table of events learn all of them when they start."""

from pathlib import Path

import polars as pl
import pytest

import alphaedge
from alphaedge.edge.config import load as load_config
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.journal import Journal
from alphaedge.errors import InvalidValue
from alphaedge.fleet.from_results import init_fleet

from .shops import shop_frame
from .test_warm_start import NOW, SIZE

DAY = 86_400.0


def history_of(results: Path, tmp_path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(tmp_path / "history.parquet")
    init_fleet(results, tmp_path / "fleet", now=NOW, history=str(tmp_path / "history.parquet"))
    return tmp_path / "fleet"


def test_an_edge_learns_every_event_of_its_region(results: Path, tmp_path: Path) -> None:
    frame = shop_frame(1000, seed=3)
    folder = history_of(results, tmp_path, frame) / "aarhus"
    assert not (folder / "data" / "checkpoints").exists()
    loop = LearningLoop(load_config(folder / "edge.toml"), folder)
    while loop.step_alone():
        pass
    assert loop.progress.feedback == frame.filter(pl.col("shop") == "Aarhus").height // SIZE * SIZE
    assert loop.progress.scores == 0, "it has predicted none of them"


def test_events_older_than_the_feedback_window_stay_until_they_are_learned(results: Path, tmp_path: Path) -> None:
    frame = shop_frame(400, seed=3)
    folder = history_of(results, tmp_path, frame) / "aarhus"
    config = load_config(folder / "edge.toml")
    journal = Journal(folder / "data" / "journal.db", layout=Features(config.model.fields, b"").layout)
    late = NOW.timestamp() + 30 * DAY
    cleaned = journal.clean_up(late - config.feedback.window_seconds, 0, negative=True, now=late)
    assert (cleaned.expired, cleaned.dropped) == (0, 0)
    assert len(journal.labelled(0, 1000)) == frame.filter(pl.col("shop") == "Aarhus").height
    journal.close()


def test_a_region_that_is_only_in_the_history_gets_an_edge(results: Path, tmp_path: Path) -> None:
    frame = shop_frame(400, seed=3).with_columns(shop=pl.col("shop").replace("Bergen", "Oslo"))
    folder = history_of(results, tmp_path, frame)
    assert (folder / "oslo" / "data" / "journal.db").exists()
    assert not (folder / "bergen" / "data" / "journal.db").exists()
    assert alphaedge.load(folder, "Oslo").predict(frame[:5]).shape == (5,)


def test_labels_that_mean_something_else_are_refused(results: Path, tmp_path: Path) -> None:
    frame = shop_frame(400).with_columns(sold=pl.when(pl.col("sold") == 1).then(pl.lit("a")).otherwise(pl.lit("b")))
    with pytest.raises(InvalidValue, match=r"labels: found \('a', 'b'\); allowed: \('0', '1'\)"):
        history_of(results, tmp_path, frame)


def test_a_table_with_other_columns_is_refused_and_nothing_is_left_behind(results: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="kind"):
        history_of(results, tmp_path, shop_frame(400).drop("kind"))
    assert not list(tmp_path.glob("fleet*"))
