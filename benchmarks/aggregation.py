"""10 weight steps and the mix, K = 5, against 20 local steps of the same engine."""

from collections.abc import Callable

import torch

from alphaedge.core.aggregation import HeldModels, Learned, Weights, aggregate
from alphaedge.core.gradients import Stacked
from alphaedge.core.model import Model
from alphaedge.core.online import Online
from alphaedge.data.stream import Dataset
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.training_span import TrainingSpan, run_span
from benchmarks.common import arguments, deepfm_shape, in_turn, median_ratio, mlp_shape, prepare, report

STEPS, PEERS = 20, 5


def jobs_for(data: Dataset, model: Model) -> dict[str, Callable[[], None]]:
    """One stretch of local steps, and one aggregation of all edges."""
    batches, fleet, _ = prepare(data, model)
    gradients, online, edges = Stacked(model), Online(), torch.arange(len(data.streams))
    numbers = torch.arange(STEPS).expand(len(edges), -1)
    stretch = TrainingSpan(edges, numbers, numbers)

    def local() -> None:
        run_span(fleet, stretch, batches, gradients, online, same_pass=True)

    local()
    # An edge knows the rows that its whole stream names, as after a long run.
    known = [torch.zeros(t.value.shape[:2], dtype=torch.bool) for t in fleet.tables]
    whole = torch.arange(batches.count[0]).expand(len(edges), -1)
    for t, rows in enumerate(batches.rows(edges.repeat_interleave(whole.shape[1]), whole.flatten())):
        known[t].scatter_(1, rows.view(len(edges), -1), True)
        known[t][:, -1] = False
    pool = Publications(fleet, 1, ())
    pool.publish(edges, fleet, known, torch.ones_like(edges))
    index = torch.stack([torch.randperm(len(edges) - 1)[:PEERS] for _ in edges])
    index += index >= edges.unsqueeze(1)
    fetched = HeldModels(
        pool.dense.flatten(0, 1),
        tuple(t.flatten(0, 1) for t in pool.tables),
        tuple(known),
        {},
        index,
        torch.ones_like(index, dtype=torch.bool),
    )
    batch = batches.get(edges, torch.zeros_like(edges))

    def mix() -> None:
        weights = Weights.fixed(torch.ones(len(edges), 1 + PEERS))
        models = fleet.models(edges)
        aggregate(models, fetched, weights, Learned(steps=10), [batch], gradients, known)
        fleet.put_models(edges, models)

    return {"local": local, "mix": mix}


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "")
    rounds = 3 if args.quick else 15
    figures, rows = {}, []
    for name, (data, model) in (("mlp", mlp_shape(35, STEPS)), ("deepfm", deepfm_shape(10, 200))):
        seconds = in_turn(jobs_for(data, model), rounds)
        ratio = median_ratio(seconds["mix"], seconds["local"])
        figures[name] = {"ratio": ratio}
        rows.append([name, f"{min(seconds['local']) * 1e3:.1f}", f"{min(seconds['mix']) * 1e3:.1f}", f"{ratio:.2f}"])
    columns = ["model", "20 local steps, ms", "10 weight steps + mix, ms", "ratio"]
    report("cost of an aggregation, K = 5", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
