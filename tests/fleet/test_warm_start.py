"""A live edge that starts from a simulation predicts what the simulation would have predicted next."""

import datetime as dt
from pathlib import Path

import msgspec
import polars as pl
import pytest
import torch

from alphaedge.data.stream import Dataset
from alphaedge.data.table import Table, load
from alphaedge.edge.config import load as load_config
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.serving.openapi import model_metadata
from alphaedge.errors import AlphaEdgeError, InvalidValue
from alphaedge.fleet.data import open_fleet
from alphaedge.fleet.folders import DATA_FILE
from alphaedge.fleet.from_results import init_fleet
from alphaedge.fleet.layout import Fleet
from alphaedge.fleet_state import STATE_FILE, FleetState
from alphaedge.settings import MethodSettings, PrivacySettings
from alphaedge.simulation.config import Settings, build
from alphaedge.simulation.simulate import simulate

from ..simulation.fleets import predictions, seen
from .shops import SHOPS, shop_frame, write

SIZE, EVERY = 10, 6
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def table(path: Path) -> Table:
    return Table(
        file=str(path), time="when", edge="shop", label="sold", ids=("item",), categories=("kind",), numbers=("price",)
    )


def settings(path: Path) -> Settings:
    return Settings(
        data="table",
        table=table(path),
        methods=("alphaedge",),
        batch_size=SIZE,
        method=MethodSettings(aggregate_every=EVERY, peers=2),
    )


def simulated_fleet(folder: Path, frame: pl.DataFrame) -> Path:
    path = write(frame, folder / "part.csv")
    simulate(settings(path), keep_state="alphaedge").save(folder / "results")
    return folder / "results"


def raw_events(data: Dataset, edge: int, events: slice) -> dict[str, object]:
    stream, raw = data.streams[edge], {}
    for field in data.fields:
        values = stream.inputs[field.name][events].numpy()
        if field.name in data.values:
            values = pl.Series(data.values[field.name])[values.tolist()].to_numpy().astype(object)
        raw[field.name] = values
    return raw


def test_the_first_predictions_are_those_that_the_simulation_would_have_made(tmp_path: Path) -> None:
    frame = shop_frame(2400)
    results = simulated_fleet(tmp_path, frame[:1700])
    fleet = init_fleet(results, tmp_path / "fleet", now=NOW)
    whole_file = write(frame, tmp_path / "whole.csv")
    whole, data = seen(settings=settings(whole_file)).world, load(table(whole_file))
    compared = 0
    for number, edge in enumerate(fleet.edges):
        folder = tmp_path / "fleet" / edge.name
        config = load_config(folder / "edge.toml")
        loop = LearningLoop(config, folder)
        assert loop.learner.revealed == loop.progress.batches
        batch = loop.learner.revealed
        if loop.due:  # the whole simulation has mixed before its next batch
            continue
        secret = (folder / "fleet.secret").read_bytes()
        features = Features(config.model.fields, secret)
        events = features.encode(raw_events(data, number, slice(batch * SIZE, (batch + 1) * SIZE)))  # type: ignore[arg-type]
        found = loop.learner.predict(features.to_tensors(events, loop.learner.model.fields))
        expected = predictions(whole, number)[batch]
        torch.testing.assert_close(torch.sigmoid(found), expected.to(found.dtype), rtol=0, atol=2e-4)
        compared += 1
    assert compared >= 2


def test_every_value_that_the_simulation_met_has_a_row(tmp_path: Path) -> None:
    frame = shop_frame(1500)
    fleet = init_fleet(simulated_fleet(tmp_path, frame), tmp_path / "fleet", now=NOW)
    for edge in fleet.edges:
        folder = tmp_path / "fleet" / edge.name
        loop = LearningLoop(load_config(folder / "edge.toml"), folder)
        secret = (folder / "fleet.secret").read_bytes()
        size = int((frame["shop"] == edge.place).sum()) // SIZE * SIZE
        own = frame.filter(pl.col("shop") == edge.place).head(size)
        for number, column in enumerate(("item", "kind")):
            keys = torch.tensor([key_of(value, secret) for value in own[column].unique()])
            assert (loop.learner.tables[number].rows(keys) >= 0).all()


def test_peers_weights_and_counts_are_taken_along(tmp_path: Path) -> None:
    results = simulated_fleet(tmp_path, shop_frame(1500))
    state = FleetState.read(results / STATE_FILE)
    fleet = init_fleet(results, tmp_path / "fleet", now=NOW)
    names = [edge.name for edge in fleet.edges]
    for edge, kept in zip(fleet.edges, state.edges, strict=True):
        folder = tmp_path / "fleet" / edge.name
        learner = LearningLoop(load_config(folder / "edge.toml"), folder).learner
        assert learner.links.neighbours == [names[j] for j in kept.neighbours]
        assert learner.aggregations == kept.aggregations > 0
        assert kept.own is not None
        assert learner.links.own.weight == pytest.approx(kept.own.weight)
        assert learner.publication.number == kept.publication > 0


def test_score_and_gain_are_of_what_the_live_edge_has_predicted(tmp_path: Path) -> None:
    """Neither is of the simulation, nor of the events since its last round, which the edge learns when it starts."""
    fleet = init_fleet(simulated_fleet(tmp_path, shop_frame(1500)), tmp_path / "fleet", now=NOW)
    for edge in fleet.edges:
        folder = tmp_path / "fleet" / edge.name
        loop = LearningLoop(load_config(folder / "edge.toml"), folder)
        vitals = loop.vitals()
        assert vitals.batches > 0
        assert (vitals.score, vitals.recent, vitals.gain) == (None, None, None)
        assert vitals.place == edge.place


def test_the_configuration_says_which_value_of_the_label_is_1(tmp_path: Path) -> None:
    frame = shop_frame(1000).with_columns(sold=pl.when(pl.col("sold") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")))
    init_fleet(simulated_fleet(tmp_path, frame), tmp_path / "fleet", now=NOW)
    config = load_config(tmp_path / "fleet" / "bergen" / "edge.toml")
    assert config.model.classes == ("no", "yes")
    assert msgspec.to_builtins(model_metadata(config))["parameters"] == {"task": "classify", "classes": ("no", "yes")}


def test_what_rounding_left_out_is_taken_along(tmp_path: Path) -> None:
    path = write(shop_frame(1000), tmp_path / "part.csv")
    method = MethodSettings(aggregate_every=EVERY, peers=2, precision="int8", min_change=0.1)
    chosen = msgspec.structs.replace(settings(path), method=method)
    simulate(chosen, keep_state="alphaedge").save(tmp_path / "results")
    fleet, state = (
        init_fleet(tmp_path / "results", tmp_path / "fleet", now=NOW),
        FleetState.read(tmp_path / "results" / STATE_FILE),
    )
    for edge, tensors in zip(fleet.edges, state.tensors, strict=True):
        folder = tmp_path / "fleet" / edge.name
        learner = LearningLoop(load_config(folder / "edge.toml"), folder).learner
        assert (learner.method.precision, learner.method.min_change) == ("int8", 0.1)
        assert torch.equal(learner.publication.residual, tensors["residual"])
        for t, table in enumerate(learner.tables):
            found = table.residual[table.residual.any(1)]
            kept = tensors[f"residual.{t}"]
            assert sorted(found.tolist()) == sorted(kept[kept.any(1)].tolist()) != []


def test_a_private_fleet_keeps_its_promise_and_publishes_nothing_of_the_simulation(tmp_path: Path) -> None:
    path = write(shop_frame(1000), tmp_path / "part.csv")
    method = MethodSettings(aggregate_every=EVERY, peers=2, privacy=PrivacySettings(epsilon=4.0))
    chosen = msgspec.structs.replace(settings(path), method=method)
    simulate(chosen, keep_state="alphaedge").save(tmp_path / "results")
    for edge in init_fleet(tmp_path / "results", tmp_path / "fleet", now=NOW).edges:
        folder = tmp_path / "fleet" / edge.name
        config = load_config(folder / "edge.toml")
        assert config.method.privacy == method.privacy
        learner = LearningLoop(config, folder).learner
        assert learner.private is not None
        assert learner.private.ledger.windows == 0 or learner.private.records > 0


def test_an_edge_without_a_round_starts_from_its_events_alone(tmp_path: Path) -> None:
    frame = shop_frame(1200)
    few = frame.filter((pl.col("shop") != "Bergen") | (pl.int_range(pl.len()) > 1120))
    fleet = init_fleet(simulated_fleet(tmp_path, few), tmp_path / "fleet", now=NOW)
    bergen = next(edge for edge in fleet.edges if edge.place == "Bergen")
    folder = tmp_path / "fleet" / bergen.name
    loop = LearningLoop(load_config(folder / "edge.toml"), folder)
    assert loop.learner.aggregations == 0
    assert loop.learner.revealed == few.filter(pl.col("shop") == "Bergen").height // SIZE


def test_a_damaged_state_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    results = simulated_fleet(tmp_path, shop_frame(1000))
    file = results / STATE_FILE
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InvalidValue, match="state"):
        init_fleet(results, tmp_path / "fleet", now=NOW)
    assert not list(tmp_path.glob("fleet*"))


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    results = simulated_fleet(tmp_path, shop_frame(1000))
    with pytest.raises(InvalidValue, match="also user, which the model takes"):
        init_fleet(results, tmp_path / "fleet", now=NOW, factory="tests.edge.exact:make")
    assert not list(tmp_path.glob("fleet*"))


def test_a_fleet_folder_has_an_edge_for_each_place(tmp_path: Path) -> None:
    init_fleet(simulated_fleet(tmp_path, shop_frame(1000)), tmp_path / "fleet", now=NOW, host="{edge}.example.com")
    fleet = Fleet.load(tmp_path / "fleet")
    assert sorted(edge.place for edge in fleet.edges) == sorted(SHOPS)
    assert fleet.urls()["Köln Süd"] == "http://koln-sud.example.com:8080"
    assert not [path for edge in fleet.edges for path in (tmp_path / "fleet" / edge.name).rglob("ca.key")]
    assert load_config(tmp_path / "fleet" / "koln-sud" / "edge.toml").peers.address == "koln-sud.example.com:8443"


def test_a_fleet_of_data_from_python_says_what_a_replay_needs(tmp_path: Path) -> None:
    data = Dataset.from_frame(shop_frame(1000), time="when", edge="shop", label="sold", ids=["item"], name="shops")
    results = simulate(data=data, methods=["alphaedge"], batch_size=SIZE, keep_state="alphaedge")
    results.save(tmp_path / "results")
    init_fleet(tmp_path / "results", tmp_path / "fleet", now=NOW)
    assert "came from Python" in (tmp_path / "fleet" / DATA_FILE).read_text(encoding="utf-8")
    known = open_fleet(tmp_path / "fleet")
    with pytest.raises(AlphaEdgeError, match=r"came from Python.*--table FILE"):
        known.settings({})
    found = build(known.settings({"table": {"file": str(write(shop_frame(200), tmp_path / "new.csv"))}}))
    assert found.table is not None
    again = load(found.table)
    assert [(f.name, f.kind) for f in again.fields] == [(f.name, f.kind) for f in data.fields]
    assert again.edge_names == data.edge_names
