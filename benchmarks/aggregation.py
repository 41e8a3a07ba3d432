"""The cost of an aggregation (10 weight steps and the mix, K = 5) against 20 online steps of the same engine."""

from collections.abc import Callable

import torch

from alphaedge.core.aggregation import Mixing, Weights, shares_of
from alphaedge.core.gradients import Stacked
from alphaedge.core.model import Model
from alphaedge.core.online import Online
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.data.stream import Dataset
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.training_span import TrainingSpan, run_span
from benchmarks.common import arguments, deepfm_shape, median_ratio, mlp_shape, prepare, report, time_in_turn

STEPS, PEERS = 20, 5


def jobs_for(data: Dataset, model: Model) -> dict[str, Callable[[], None]]:
    """Make two jobs: 20 online steps of all edges, and one aggregation of all edges."""
    batches, state = prepare(data, model)
    gradients, online, edges = Stacked(model), Online(), torch.arange(len(data.streams))
    numbers = torch.arange(STEPS).expand(len(edges), -1)
    span = TrainingSpan(edges, edges, numbers, numbers)

    def train() -> None:
        run_span(state, span, batches, gradients, online, same_pass=True)

    train()
    # An edge knows the rows of its whole stream, as after a long run.
    known = [torch.zeros(t.value.shape[:2], dtype=torch.bool) for t in state.tables]
    whole = torch.arange(batches.count[0]).expand(len(edges), -1)
    for t, rows in enumerate(batches.rows(edges.repeat_interleave(whole.shape[1]), whole.flatten())):
        known[t].scatter_(1, rows.view(len(edges), -1), True)
        known[t][:, -1] = False
    published = Publications(state, 1, (), [layout.told for layout in gradients.model.tables])
    published.publish(edges, state, known, torch.ones_like(edges))
    index = torch.stack([torch.randperm(len(edges) - 1)[:PEERS] for _ in edges])
    index += index >= edges.unsqueeze(1)
    places = [own.places(edges, index) for own in batches.own_rows]
    present = torch.ones_like(index, dtype=torch.bool)
    batch = batches.get(edges, torch.zeros_like(edges))
    rule, ones = Learned(steps=10), torch.ones(len(edges), 1 + PEERS)
    weights = Weights(ones, {name: ones * start for name, start in rule.memory.numbers.items()})

    def mix() -> None:
        held = published.hold(index, places, present, statistics=False)
        models = state.select_models(edges)
        mixing = Mixing(models, held, ones, [batch], gradients, known)
        rule.mix(mixing, shares_of(rule.weigh(mixing, weights).raw, held.present))
        state.write_models(edges, models)

    return {"train": train, "mix": mix}


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "")
    rounds = 1 if args.quick else 15
    figures, rows = {}, []
    for name, (data, model) in (("mlp", mlp_shape(35, STEPS)), ("deepfm", deepfm_shape(10, 200))):
        seconds = time_in_turn(jobs_for(data, model), rounds)
        ratio = median_ratio(seconds["mix"], seconds["train"])
        figures[name] = {"ratio": ratio}
        rows.append([name, f"{min(seconds['train']) * 1e3:.1f}", f"{min(seconds['mix']) * 1e3:.1f}", f"{ratio:.2f}"])
    columns = ["model", "20 online steps, ms", "10 weight steps + mix, ms", "ratio"]
    report("cost of an aggregation, K = 5", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
