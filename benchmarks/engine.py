"""The stacked engine against a plain loop over ``nn.Module``s with ``torch.optim.Adam``, one thread each.

Both predict and learn the same batches. The DeepFM is measured with two variants of Adam for id rows: ``lazy`` (the
default of the engine: only the rows that a batch names move) and ``dense`` (what the plain loop does).
"""

import copy
from collections.abc import Callable
from typing import Literal

import torch

from alphaedge.core.gradients import Stacked
from alphaedge.core.model import Model
from alphaedge.core.online import Online
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.data.stream import Dataset
from alphaedge.simulation.training_span import TrainingSpan, run_span
from benchmarks.common import BATCH, arguments, deepfm_shape, median_ratio, mlp_shape, prepare, report, time_in_turn

STEPS = 20

Kind = Literal["lazy", "dense"]


def plain_loop(data: Dataset, model: Model, steps: int = STEPS, size: int = BATCH) -> Callable[[], None]:
    """Make a job that runs ``steps`` batches on each edge in a loop, as most simulators do."""
    modules = [copy.deepcopy(model.module) for _ in data.streams]
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.001) for m in modules]
    untold = model.untold(size)

    def job() -> None:
        for step in range(steps):
            rows = slice(step * size, (step + 1) * size)
            for stream, module, optimizer in zip(data.streams, modules, optimizers, strict=True):
                outputs = module(*(stream.inputs[f][rows] for f in model.fields), *untold)
                loss = model.loss.function(outputs, stream.labels[rows])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()

    return job


def engine(data: Dataset, model: Model, rows: Kind, steps: int = STEPS, size: int = BATCH) -> Callable[[], None]:
    """Make a job that runs the same batches as one span of the engine."""
    batches, state = prepare(data, model, size)
    gradients, online = Stacked(model), Online(Adam(0.001, lazy_rows=rows == "lazy"))
    numbers = torch.arange(steps).expand(len(state), -1)
    edges = torch.arange(len(state))
    span = TrainingSpan(edges, edges, numbers, numbers)

    def job() -> None:
        run_span(state, span, batches, gradients, online, same_pass=True)

    return job


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "")
    rounds = 1 if args.quick else 15
    figures, rows = {}, []
    lazy: list[Kind] = ["lazy"]
    both: list[Kind] = ["lazy", "dense"]
    for name, (data, model), kinds in (("mlp", mlp_shape(35, STEPS), lazy), ("deepfm", deepfm_shape(10, STEPS), both)):
        jobs: dict[str, Callable[[], None]] = {"loop": plain_loop(data, model)}
        jobs |= {kind: engine(data, model, kind) for kind in kinds}
        seconds = time_in_turn(jobs, rounds)
        work = STEPS * len(data.streams)
        figures[name] = {"loop_edge_batches_per_second": work / min(seconds["loop"])}
        for kind in kinds:
            ratio = median_ratio(seconds["loop"], seconds[kind])
            figures[name]["ratio" if kind == "lazy" else f"ratio_{kind}"] = ratio
            label = name if len(kinds) == 1 else f"{name}, {kind} rows"
            rows.append(
                [label, f"{work / min(seconds['loop']):,.0f}", f"{work / min(seconds[kind]):,.0f}", f"{ratio:.1f}"]
            )
    report("edge-batches per second", ["model", "plain loop", "engine", "ratio"], rows, figures, args.json)


if __name__ == "__main__":
    main()
