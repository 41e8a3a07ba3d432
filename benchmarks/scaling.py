"""Cost per edge-batch and peak memory of AlphaEdge: with the MLP up to 10,000 edges, with id tables up to 1,000.

Each size runs in its own process, to measure its own peak memory. Sizes take turns over the rounds. What a fleet needs
is counted: all tensors of models, optimizer state, publications, events, labels, predictions and scores. What it takes
is the peak without that of 10 edges, which is the process itself: Python, torch, recorded calls.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any
from unittest import mock

import torch

from alphaedge.core.gradients import Stacked
from alphaedge.core.methods import alphaedge
from alphaedge.core.online import Online
from alphaedge.core.state import ModelState, TableState
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.scoring import one_minus_smape
from alphaedge.simulation.batches import Batches, Inputs, Labels, batch_times
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.engine import Engine
from alphaedge.simulation.memory.own_rows import OwnRows
from alphaedge.simulation.run_log import RunLog
from alphaedge.simulation.simulate import simulate
from alphaedge.simulation.timeline import Timeline
from alphaedge.simulation.world import World
from benchmarks.common import BATCH, arguments, mlp_shape, report

SIZES = {"MLP": [10, 100, 1_000, 10_000], "id tables": [10, 100, 1_000]}


def held(*owners: object) -> int:
    """Bytes of all tensors that some objects hold, each once."""
    found: dict[int, int] = {}

    def add(value: object) -> None:
        if isinstance(value, torch.Tensor):
            found[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, list | tuple) and value and not isinstance(value[0], int | str | list | dict):
            for one in value:
                add(one)
        elif isinstance(value, dict):
            add(list(value.values()))
        elif isinstance(value, TableState | OwnRows):
            add([part for part in vars(value).values() if isinstance(part, torch.Tensor)])

    for owner in owners:
        for value in vars(owner).values():
            add(value)
    return sum(found.values())


def result(seconds: float, world: World, *others: object) -> dict[str, float]:
    """What a process reports of its run. others: what holds tensors besides the world."""
    return {
        "cost": seconds / int(world.log.done.sum()),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "need": held(world, world.models, world.published, world.batches, world.log, *others),
    }


def measure_tables(edges: int, batches: int) -> dict[str, float]:
    """Run AlphaEdge with all defaults on a synthetic store, whose regions have 300 users each and share 1,000 items."""
    torch.set_num_threads(1)
    worlds: list[World] = []

    def make(**parts: Any) -> World:
        worlds.append(World(**parts))
        return worlds[-1]

    data = synthetic(Store(edges=edges, events=batches * BATCH))
    with mock.patch("alphaedge.simulation.task.World", make):
        for _ in range(2 if edges <= 100 else 1):
            found = simulate(data=data, methods=["alphaedge"], batch_size=BATCH)
    return result(found.outcomes("alphaedge")[0].seconds, worlds[-1], *data.streams)


def measure(edges: int, batches: int) -> dict[str, float]:
    """Run AlphaEdge without a home model, once to warm up (unless that takes long) and once to measure."""
    torch.set_num_threads(1)
    # The edges share ten streams, so that the engine is measured and not the generation of data.
    few, model = mlp_shape(10, batches)
    inputs = Inputs.cut(few, model, BATCH)
    labels = Labels.draw(few, BATCH, Conditions(), 0, model.dtype)
    turns = edges // 10
    inputs = Inputs(inputs.inputs, inputs.rows, inputs.start * turns, inputs.count * turns)
    ready = Batches([inputs], [Labels(labels.scored.repeat(turns, 1), labels.taught.repeat(turns, 1))])
    gradients, conditions = Stacked(model), Conditions()

    def run() -> tuple[float, World]:
        world = World(
            method=alphaedge(home=None),
            batches=ready,
            timelines=[Timeline(batch_times(few, BATCH) * turns, "batch-index", conditions, 20)],
            seeds=[0],
            models=ModelState.start([model], [0] * edges),
            gradients=gradients,
            conditions=conditions,
            log=RunLog(edges, len(ready.scored), BATCH, one_minus_smape),
        )
        engine = Engine(world, Online(), same_pass=True)
        began = time.perf_counter()
        engine.run()
        return time.perf_counter() - began, world

    if edges <= 1_000:
        run()
    return result(*run())


def main() -> None:
    """Measure and report."""
    if sys.argv[1:2] == ["--size"]:
        kind, size, batches = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        print(json.dumps((measure if kind == "MLP" else measure_tables)(size, batches)))
        return
    args: argparse.Namespace = arguments(__doc__ or "")
    figures: dict[str, Any] = {}
    rows = []
    for kind, sizes in SIZES.items():
        some = sizes[:2] if args.quick else sizes
        found = [[_in_own_process(kind, edges) for edges in some] for _ in range(1 if args.quick else 3)]
        cost = [min(x["cost"] for x in of_size) for of_size in zip(*found, strict=True)]
        memory = [max(x["memory"] for x in of_size) for of_size in zip(*found, strict=True)]
        need = [x["need"] for x in found[0]]
        name = kind.lower().replace(" ", "_")
        figures[name] = {
            "edges": some,
            "cost": cost,
            "memory": memory,
            "need": need,
            "cost_ratio": statistics.median(turn[-1]["cost"] / turn[1]["cost"] for turn in found),
            "memory_ratio": (memory[-1] - memory[0]) / (need[-1] - need[0]),
        }
        for n, each, peak, least in zip(some, cost, memory, need, strict=True):
            taken = (peak - memory[0]) / (least - need[0]) if n > 10 else None
            columns = [f"{each * 1e6:.1f}", f"{each / cost[1]:.2f}", f"{peak / 1e9:.2f}", f"{least / 1e9:.2f}"]
            rows.append([kind, f"{n:,}", *columns, f"{taken:.2f}" if taken else ""])
    columns = ["", "edges", "µs per edge-batch", "relative to 100 edges", "peak, GB", "needed, GB", "taken / needed"]
    report("AlphaEdge, 40 batches each, aggregations included", columns, rows, figures, args.json)


def _in_own_process(kind: str, edges: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scaling", "--size", kind, str(edges), "40"]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


if __name__ == "__main__":
    main()
