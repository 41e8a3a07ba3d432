"""``benchmarks.peers``: all frameworks get the same work, and the table says who is how fast and who did not run."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import peers
from benchmarks.frameworks import BATCH, alphaedge_run, alphaedge_stream
from benchmarks.frameworks.averaging import PERIOD, Work, mean_squared_error, network, train
from benchmarks.frameworks.picture import draw
from benchmarks.frameworks.stream import Events
from benchmarks.frameworks.turns import ROOT, Run, RunError, check_learned, score, summary, take_turns


@pytest.fixture
def work() -> Work:
    return peers.random_work(edges=3, batches=PERIOD)


def small_stream() -> Events:
    return alphaedge_stream.events(alphaedge_stream.dataset("synthetic", 2000, BATCH))


def runs(rate: float, **more: float) -> list[Run]:
    return [
        {
            "examples": rate,
            "edge_batches": rate,
            "seconds": 1.0,
            "cpu_seconds": 2.0,
            "start_up_seconds": 2.0,
            "cores": 1,
            **more,
        }
    ]


def test_work_is_the_same_after_it_was_written_and_read(work: Work, tmp_path: Path) -> None:
    work.save(tmp_path / "work.npz")
    again = Work.load(tmp_path / "work.npz")
    assert again.counts == work.counts
    for name in ("inputs", "labels", "times"):
        assert torch.equal(getattr(again, name), getattr(work, name))


def test_a_stream_that_is_at_its_end_begins_again(work: Work) -> None:
    first, second = work.period(1, 0), work.period(1, 1)
    assert len(first) == PERIOD
    assert all(torch.equal(a[0], b[0]) for a, b in zip(first, second, strict=True))
    longer = dataclasses.replace(work, counts=[2 * PERIOD * BATCH, PERIOD * BATCH])
    assert torch.equal(longer.period(0, 1)[0][0], work.stream(1)[0][:BATCH])


def test_plain_training_of_the_shared_network_learns_the_work(work: Work) -> None:
    torch.manual_seed(0)
    module = network(work.inputs.shape[1])
    before = mean_squared_error(module, work)
    train(module, work.period(0, 0) * 3)
    assert mean_squared_error(module, work) < 0.5 * before


def test_our_whole_run_does_every_batch_and_learns(work: Work) -> None:
    edge_batches, watch, error = alphaedge_run.measure(work, "fedweight")
    assert edge_batches == 3 * PERIOD
    assert watch.seconds > 0
    assert watch.cpu_seconds > 0
    check_learned({"fedweight": [{"error": error}]}, float(work.labels.var()))


def test_a_simulator_that_learned_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="flower has learned nothing"):
        check_learned({"fedweight": [{"error": 0.1}], "flower": [{"error": 0.1}, {"error": 1.0}]}, 0.9)


def test_events_are_the_same_after_they_were_written_and_read(tmp_path: Path) -> None:
    stream = dataclasses.replace(small_stream(), crossed=[("user", "item")])
    stream.save(tmp_path / "events.npz")
    again = Events.load(tmp_path / "events.npz")
    assert again.crossed == stream.crossed
    assert np.array_equal(again.labels, stream.labels)
    assert np.array_equal(again.edges, stream.edges)
    assert list(again.fields) == list(stream.fields)
    assert all(np.array_equal(again.fields[name], stream.fields[name]) for name in stream.fields)


def test_features_name_ids_and_leave_out_zeros() -> None:
    stream = Events({"user": np.array([7]), "genres": np.array([[0.0, 1.0]])}, np.array([1]), np.array([0]))
    assert stream.features() == [{"user": {"user7": 1.0}, "genres": {"genres1": 1.0}}]


def test_models_of_their_own_see_one_edge_and_the_pooled_model_sees_all() -> None:
    stream = Events({}, np.array([0, 1, 1]), np.array([0, 2, 0]))
    assert stream.model_of("own") == stream.model_of("batches") == [0, 2, 0]
    assert stream.model_of("pooled") == [0, 0, 0]


def test_one_score_compares_within_batches_and_the_other_within_an_edge() -> None:
    labels = np.tile([0, 1], BATCH)  # two batches of one edge; outputs are higher in the second one
    stream = Events({}, labels, np.zeros_like(labels))
    outputs = 0.1 * labels + 0.5 * (np.arange(2 * BATCH) >= BATCH)
    assert score(outputs, stream) == {"auc": 1.0, "edge_auc": 0.75}


def test_events_fill_whole_batches_of_every_edge() -> None:
    counts = np.bincount(small_stream().edges)
    assert counts.sum() > 0
    assert not (counts % BATCH).any()


def test_a_program_that_fails_is_left_out_with_its_reason_and_the_others_go_on() -> None:
    calls = []

    def good() -> Run:
        calls.append("good")
        return runs(1.0)[0]

    def bad() -> Run:
        calls.append("bad")
        raise RunError("no network")

    found, failed = take_turns({"good": good, "bad": bad}, 2)
    assert calls == ["good", "bad", "good"]
    assert list(found) == ["good"]
    assert failed == {"bad": "no network"}


def figures() -> dict[str, Any]:
    simulators = summary({"fedweight": runs(20.0), "alphaedge": runs(8.0), "flower": runs(2.0)}, "edge_batches")
    scores = {"auc": 0.6, "edge_auc": 0.7}
    learners = summary({n: runs(3.0, **scores) for n in ("noagg", "alphaedge", "river own")}, "examples")
    return {
        "simulators": simulators,
        "learners": learners,
        "missing": {"gossipy": "no matching distribution", "vowpalwabbit pooled": "killed"},
        **peers.ratios(simulators, peers.OWN_SIMULATIONS),
        **peers.ratios(learners, peers.OWN_LEARNERS),
    }


def test_ratios_have_names_that_say_whose_they_are() -> None:
    found = figures()
    assert found["fedweight_times_flower"] == 10
    assert found["alphaedge_times_flower"] == 4
    assert found["noagg_times_river_own"] == 1


def test_the_table_has_those_that_ran_and_why_the_others_did_not() -> None:
    lines = peers.rows(figures(), "simulators")
    assert lines[2] == ["Flower", "2", "1", "1", "2.0", "10.00", "4.00"]
    assert lines[3][0] == "gossipy: no matching distribution"
    lines = peers.rows(figures(), "learners")
    assert lines[2][5:7] == ["0.6000", "0.7000"]
    assert lines[3][0] == "vowpalwabbit pooled: killed"


def test_the_picture_shows_everybody_who_ran() -> None:
    bars, points = draw(figures()).axes
    assert len(bars.patches) == 3
    assert len(points.lines) == 3


def test_without_installing_only_finished_environments_take_part(tmp_path: Path) -> None:
    (tmp_path / "river").mkdir()
    (tmp_path / "river" / "complete").write_text("\n".join(peers.LEARNERS["river"]), encoding="utf-8")
    pythons, missing = peers.set_up({**peers.SIMULATORS, **peers.LEARNERS}, tmp_path, install=False)
    assert list(pythons) == ["river"]
    assert set(missing) == {*peers.SIMULATORS, "vowpalwabbit"}


@pytest.mark.long
def test_the_command_runs_ours_where_nothing_else_is_installed(tmp_path: Path) -> None:
    file, picture = tmp_path / "figures.json", tmp_path / "peers.png"
    command = [sys.executable, "-m", "benchmarks.peers", "--quick", "--envs", str(tmp_path / "none")]
    command += ["--json", str(file), "--picture", str(picture)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert all(found["simulators"][method]["edge_batches_per_second"] > 0 for method in peers.OWN_SIMULATIONS)
    assert all(found["learners"][method]["examples_per_second"] > 0 for method in peers.OWN_LEARNERS)
    assert set(found["missing"]) == {*peers.SIMULATORS, *peers.LEARNERS}
    assert picture.stat().st_size > 0
