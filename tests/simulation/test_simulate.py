"""``simulate`` refuses what cannot work before any work starts, and keeps what was finished."""

import dataclasses
import multiprocessing
import os
import signal
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from alphaedge import (
    AlphaEdgeError,
    Conditions,
    IdTable,
    InvalidValue,
    MethodSettings,
    Model,
    ModelError,
    Results,
    Settings,
    simulate,
)
from alphaedge.core.methods import alphaedge, noagg, uniweight
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult

from .fleets import Factors, factors, linear, measured, shop, shop_data, shop_model

SIZE = 5


@pytest.fixture
def no_work() -> Iterator[None]:
    with mock.patch("alphaedge.simulation.workers.protocol.run_task", side_effect=AssertionError("work has started")):
        yield


def refusal(kind: type[AlphaEdgeError] = InvalidValue, **settings: Any) -> Any:
    with pytest.raises(kind) as caught:
        simulate(**({"batch_size": SIZE} | settings))
    return caught.value


@pytest.mark.usefixtures("no_work")
class TestBeforeAnyWorkStarts:
    def test_an_unknown_method_is_refused(self) -> None:
        error = refusal(methods=["alphaedge", "magic"])
        assert (error.field, error.found) == ("methods", "magic")
        assert "noagg" in error.allowed

    def test_fewer_than_one_peer_is_refused(self) -> None:
        error = refusal(methods=["alphaedge"], method=MethodSettings(peers=0))
        assert (error.field, error.found, error.allowed) == ("peers", 0, "a whole number of at least 1")

    @pytest.mark.parametrize("none", [[], {}])
    def test_no_method_is_refused(self, none: Any) -> None:
        error = refusal(methods=none)
        assert (error.field, error.found) == ("methods", none)

    def test_an_unknown_setting_is_refused(self) -> None:
        error = refusal(methods=["noagg"], speed=3)
        assert error.found == "speed"
        assert "batch_size" in error.allowed

    def test_conditions_for_an_edge_that_does_not_exist_are_refused(self) -> None:
        error = refusal(methods=["noagg"], store=shop(), conditions=Conditions(joins={3: 0.5}))
        assert (error.field, error.found, error.allowed) == ("joins", 3, "an edge from 0 to 2")

    def test_a_batch_larger_than_a_stream_is_refused(self) -> None:
        error = refusal(methods=["noagg"], data=measured(2, 3), model=linear, batch_size=16)
        assert (error.field, error.found) == ("edge 0: events", 15)
        assert "16" in error.allowed

    def test_a_batch_too_large_for_the_last_edge_is_refused_too(self) -> None:
        error = refusal(methods=["noagg"], data=measured(3, [9, 9, 2]), model=linear, batch_size=11)
        assert error.field == "edge 2: events"

    def test_a_module_with_another_output_shape_is_refused(self) -> None:
        error = refusal(methods=["noagg"], data=measured(), model=lambda: Model(nn.Linear(2, 3), fields=["x"]))
        assert error.field == "output of Linear"
        assert error.found == (SIZE, 3)
        assert f"({SIZE},)" in error.allowed

    def test_a_module_that_returns_no_tensor_is_refused(self) -> None:
        class Pair(nn.Linear):
            def forward(self, x: Tensor) -> Any:
                return super().forward(x), x

        error = refusal(methods=["noagg"], data=measured(), model=lambda: Model(Pair(2, 1), fields=["x"]))
        assert (error.field, error.found) == ("output of Pair", "tuple")

    def test_an_id_table_that_is_no_parameter_is_refused(self) -> None:
        def make() -> Model:
            tables = [IdTable(("item",), ("goods.weight",))]
            return Model(Factors(30, 20), fields=["user", "item", "numbers"], tables=tables)

        error = refusal(methods=["noagg"], store=shop(), model=make)
        assert error.found == "goods.weight"
        assert "item.weight" in error.allowed

    def test_an_id_table_smaller_than_its_ids_is_refused(self) -> None:
        error = refusal(methods=["noagg"], store=shop(), model=lambda: factors(29, 20))
        assert (error.field, error.found) == ("rows of id table user", 29)

    def test_a_model_of_a_field_that_the_data_lacks_is_refused(self) -> None:
        error = refusal(methods=["noagg"], store=shop(), model=linear)
        assert error.found == "x"

    def test_a_model_that_uses_ids_otherwise_is_refused(self) -> None:
        class Odd(Factors):
            def forward(self, user: Tensor, item: Tensor, numbers: Tensor) -> Tensor:
                return super().forward(user, item, numbers) + (item % 2).float()

        def make() -> Model:
            tables = [IdTable(("user",), ("user.weight",)), IdTable(("item",), ("item.weight", "appeal"))]
            return Model(Odd(30, 20), fields=["user", "item", "numbers"], tables=tables)

        error = refusal(ModelError, methods=["noagg"], store=shop(), model=make)
        assert "Odd" in str(error)
        assert "item" in str(error)
        assert "renumbered" in str(error)

    def test_ids_may_be_used_otherwise_if_no_table_is_declared_for_them(self) -> None:
        class Odd(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.slope = nn.Parameter(torch.zeros(1))

            def forward(self, item: Tensor) -> Tensor:
                return self.slope * (item % 2).float()

        with pytest.raises(AssertionError, match="work has started"):
            simulate(methods=["noagg"], store=shop(), model=lambda: Model(Odd(), fields=["item"]), batch_size=SIZE)

    @pytest.mark.parametrize("jobs", [0, -1])
    def test_fewer_than_one_process_is_refused(self, jobs: int) -> None:
        assert refusal(methods=["noagg"], data=measured(), model=linear, jobs=jobs).field == "jobs"

    def test_settings_that_are_no_settings_are_refused(self) -> None:
        assert refusal(methods=["noagg"], method={"peers": 3}).field == "method"

    def test_a_batch_too_large_for_another_seeds_store_is_refused(self) -> None:
        """Every seed draws its own store, whose smallest stream may be too short although seed 0's is not."""
        store = shop(edges=8, events=100)
        shortest = [min(len(s) for s in shop_data(edges=8, events=100, seed=seed).streams) for seed in range(4)]
        assert min(shortest) < shortest[0]
        error = refusal(methods=["noagg"], store=store, seeds=4, batch_size=shortest[0])
        assert error.field == "batch_size"


def test_the_defaults_are_a_deepfm_to_classify_and_an_mlp_to_regress() -> None:
    quick: dict[str, Any] = {"methods": ["noagg"], "batch_size": SIZE, "executor": "one-at-a-time"}
    assert simulate(store=shop(events=30), **quick).summary()["metric"] == "AUC"
    assert simulate(data=measured(2, 4), **quick).summary()["metric"] == "1-SMAPE"


def test_methods_of_ones_own_go_by_ones_own_names() -> None:
    found = simulate(
        methods={"mine": alphaedge(aggregate_every=4), "plain": uniweight(aggregate_every=4)},
        data=measured(3, 10),
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
    )
    assert list(found.summary()["methods"]) == ["mine", "plain"]


def test_settings_and_changes_to_them_add_up() -> None:
    settings = Settings(store=shop(events=30), batch_size=SIZE, executor="one-at-a-time")
    found = simulate(settings, methods=["noagg"], rate=0.1)
    assert found.settings.rate == 0.1
    assert found.settings.batch_size == SIZE
    assert found.settings.methods == ("noagg",)


def test_data_with_nothing_to_regress_but_zeros_does_no_harm() -> None:
    data = measured(2, 6)
    zeros = dataclasses.replace(
        data, streams=tuple(dataclasses.replace(s, labels=torch.zeros(len(s))) for s in data.streams)
    )
    found = simulate(methods=["uniweight"], data=zeros, model=linear, batch_size=SIZE)
    assert 0 <= found.summary()["methods"]["uniweight"]["mean"] <= 1


def test_a_single_edge_is_alone_whatever_the_method() -> None:
    found = simulate(
        methods=["alphaedge", "fedweight", "noagg"], data=measured(1, 30), model=linear, batch_size=SIZE,
        method=MethodSettings(weight_batches=1, home=False),
    )  # fmt: skip
    rows = found.summary()["methods"]
    assert rows["alphaedge"]["mean"] == pytest.approx(rows["noagg"]["mean"], abs=1e-6)
    assert rows["fedweight"]["mean"] == pytest.approx(rows["noagg"]["mean"], abs=1e-6)
    assert rows["alphaedge"]["bytes"]["full"] == 0


class NoVmap(nn.Linear):
    """A module that vmap does not take: it looks at its data."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if bool(x.sum() > -1e9) else super().forward(-x)


def no_vmap() -> Model:
    return Model(NoVmap(2, 1), fields=["x"], loss="mse")


def test_a_module_that_cannot_be_stacked_runs_one_at_a_time_and_it_is_said_once() -> None:
    shared: dict[str, Any] = {"data": measured(2, 12), "batch_size": SIZE}
    found = simulate(methods={"a": noagg(), "b": noagg()}, model=no_vmap, **shared)
    plain = simulate(methods={"a": noagg()}, model=linear, **shared)
    assert found.summary()["methods"]["a"]["mean"] == pytest.approx(plain.summary()["methods"]["a"]["mean"], abs=1e-6)
    said = [m for m in found.summary()["messages"] if "NoVmap" in m]
    assert said
    assert all("one edge at a time" in m for m in said)


class Stop:
    """Presses Ctrl-C at the first news of a method."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.news: list[str] = []

    def __call__(self, name: str, progress: Progress) -> None:
        self.news.append(name)
        if name.startswith(self.method):
            raise KeyboardInterrupt


QUICK: dict[str, Any] = {"data": measured(3, 30), "model": linear, "batch_size": SIZE, "executor": "one-at-a-time"}


def test_ctrl_c_keeps_what_was_finished() -> None:
    found = simulate(methods=["noagg", "uniweight", "fedweight"], watch=Stop("uniweight"), **QUICK)
    summary = found.summary()
    assert found.interrupted
    assert summary["interrupted"] is True
    assert list(summary["methods"]) == ["noagg"]
    assert summary["messages"][-1] == "interrupted: 2 of 3 runs are missing"
    assert set(found.scores["method"]) == {"noagg"}
    whole = simulate(methods=["noagg"], **QUICK)
    assert found.scores.equals(whole.scores)
    assert not whole.interrupted
    assert whole.summary()["interrupted"] is False


def test_ctrl_c_before_anything_is_finished_leaves_empty_results() -> None:
    found = simulate(methods=["noagg"], watch=Stop("noagg"), **QUICK)
    assert found.interrupted
    assert found.summary()["methods"] == {}
    assert found.scores.is_empty()
    assert found.scores.columns == ["method", "seed", "edge", "batch", "time", "score"]


def test_an_error_is_no_ctrl_c() -> None:
    def watch(name: str, progress: Progress) -> None:
        if name:
            raise RuntimeError("the watcher's own")

    with pytest.raises(RuntimeError, match="own"):
        simulate(methods=["noagg"], watch=watch, **QUICK)


def test_the_watcher_hears_of_the_whole_first_and_of_every_batch_in_the_end() -> None:
    heard: list[tuple[str, Progress]] = []
    simulate(methods=["noagg", "uniweight"], seeds=2, watch=lambda name, p: heard.append((name, p)), **QUICK)
    assert heard[0][0] == ""
    assert heard[0][1].total == 2 * 2 * 3 * 30
    last = dict(heard)
    assert set(last) == {"", "noagg/0", "uniweight/0"}
    for name in ("noagg/0", "uniweight/0"):
        assert last[name].batches == last[name].total == 2 * 3 * 30
        assert last[name].score is not None
    batches = [p.batches for name, p in heard if name == "noagg/0"]
    assert batches == sorted(batches)


def test_ctrl_c_at_a_bad_moment_loses_no_finished_run() -> None:
    """The signal comes with the first news of the third task, which a worker takes up when its first is done."""

    def watch(name: str, progress: Progress) -> None:
        if name.startswith("alphaedge/"):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    store = shop(edges=2, events=2000)
    long = MethodSettings(aggregate_every=2, weight_steps=1000, weight_batches=1)
    found = simulate(
        methods=["noagg", "nops", "alphaedge"],
        store=store,
        executor="one-at-a-time",  # which does not load torch's compiler in each process
        batch_size=50,
        jobs=2,
        method=long,
        watch=watch,
    )
    assert found.interrupted
    assert list(found.summary()["methods"]) == ["noagg"]
    assert not multiprocessing.active_children()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.long
def test_ctrl_c_while_several_processes_work_keeps_what_was_finished() -> None:
    """The first method is quick; the other works on the same data in a way that takes long."""
    finished: list[str] = []
    real = Results.add

    def add(self: Results, outcomes: list[RunResult], messages: list[str]) -> None:
        real(self, outcomes, messages)
        finished.extend(o.method for o in outcomes)

    def watch(name: str, progress: Progress) -> None:
        if finished:
            raise KeyboardInterrupt

    store = shop(edges=2, events=4000)
    with mock.patch.object(Results, "add", add):
        found = simulate(
            methods=["noagg", "nops"],
            store=store,
            model=shop_model(store),
            batch_size=50,
            jobs=2,
            method=MethodSettings(aggregate_every=2, weight_steps=1000, weight_batches=1),
            watch=watch,
        )
    assert found.interrupted
    assert list(found.summary()["methods"]) == finished == ["noagg"]
    assert not [p for p in multiprocessing.active_children() if p.is_alive()]
