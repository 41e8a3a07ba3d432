"""Cost per edge-batch and peak memory of AlphaEdge with the MLP, from 10 to 10,000 edges.

Each size runs in its own process, to measure its own peak memory. Sizes take turns over the rounds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import torch

from alphaedge.core.gradients import Stacked
from alphaedge.core.methods import alphaedge
from alphaedge.core.online import Online
from alphaedge.core.state import ModelState
from alphaedge.scoring import one_minus_smape
from alphaedge.simulation.batches import Batches, Inputs, Labels, batch_times
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.engine import Engine
from alphaedge.simulation.run_log import RunLog
from alphaedge.simulation.timeline import Timeline
from alphaedge.simulation.world import World
from benchmarks.common import BATCH, arguments, mlp_shape, report

SIZES = [10, 100, 1_000, 10_000]


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

    def run() -> float:
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
        return time.perf_counter() - began

    if edges <= 1_000:
        run()
    return {
        "cost": run() / (edges * batches),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Measure and report."""
    if sys.argv[1:2] == ["--size"]:
        size, batches = int(sys.argv[2]), int(sys.argv[3])
        print(json.dumps(measure(size, batches)))
        return
    args: argparse.Namespace = arguments(__doc__ or "")
    sizes = [10, 100] if args.quick else SIZES
    rounds = 1 if args.quick else 3
    cost: dict[int, list[float]] = {n: [] for n in sizes}
    memory: dict[int, float] = {}
    for _ in range(rounds):
        for edges in sizes:
            command = [sys.executable, "-m", "benchmarks.scaling", "--size", str(edges), "40"]
            measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            cost[edges].append(measured["cost"])
            memory[edges] = measured["memory"]
    best = {n: min(c) for n, c in cost.items()}
    ratios = sorted(a / b for a, b in zip(cost[sizes[-1]], cost[100], strict=True))
    figures = {
        "edges": sizes,
        "cost": [best[n] for n in sizes],
        "memory": [memory[n] for n in sizes],
        "cost_ratio": ratios[len(ratios) // 2],
    }
    rows = [[f"{n:,}", f"{best[n] * 1e6:.1f}", f"{best[n] / best[100]:.2f}", f"{memory[n] / 1e9:.2f}"] for n in sizes]
    columns = ["edges", "µs per edge-batch", "relative to 100 edges", "peak memory, GB"]
    report("AlphaEdge with the MLP, 40 batches each, aggregations included", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
