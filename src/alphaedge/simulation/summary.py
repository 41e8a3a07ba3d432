"""The rows of a simulation's summary: of each method, and of the simple baselines beside them."""

import math
from collections.abc import Sequence
from typing import Any, Final

from alphaedge import scoring
from alphaedge.simulation.run_result import RunResult

# How losses are called. That of a regression is shown in the unit of the label: its root.
LOSS_NAMES: Final = {"classify": "log loss", "regress": "RMSE"}


def method_row(runs: Sequence[RunResult], task: str) -> dict[str, Any]:
    """Means over batches, then honest edges, then seeds."""
    per_seed = [o.mean(o.per_edge) for o in runs]
    known = [s for s in per_seed if s is not None]
    edges = range(len(runs[0].per_edge))
    full, common, changed = (sum(o.bytes[i] for o in runs) for i in range(3))
    return {
        "mean": scoring.mean(known),
        "ci95": scoring.interval95(known),
        "per_edge": [scoring.mean([o.per_edge[e] for o in runs]) for e in edges],
        "per_seed": per_seed,
        "pooled": scoring.mean([o.mean(o.pooled) for o in runs]),
        "loss": scoring.mean([o.mean(_shown(o.losses, task)) for o in runs]),
        "bytes": {"full": full, "common": common, "changed": changed},
        "edge_batches_per_second": sum(o.edge_batches for o in runs) / max(1e-9, sum(o.seconds for o in runs)),
    }


def baseline_rows(runs: Sequence[RunResult], task: str) -> dict[str, dict[str, Any]]:
    """The best baseline of each kind, by name, best first; means as those of methods.

    What tells nothing is left out: the mean of the edge where a field tells more, a column that is worse than the mean.
    """
    scored = [run for run in runs if run.baselines]
    if not scored:
        return {}
    rows = {name: _baseline_row(name, scored, task) for name in scored[0].baselines}
    kinds = {name: baseline.kind for name, baseline in scored[0].baselines.items()}
    order = sorted(rows, key=lambda name: -(rows[name]["mean"] or 0.0))
    best = {kind: name for name in reversed(order) for kind in [kinds[name]]}
    usual = best["usual"]
    if task == "classify" and "by field" in best:
        del best["usual"]  # the same for all events of a batch, so its AUC is 0.5
    if "column" in best and order.index(best["column"]) > order.index(usual):
        del best["column"]
    return {name: rows[name] for name in order if name in best.values()}


def _baseline_row(name: str, runs: Sequence[RunResult], task: str) -> dict[str, Any]:
    found = [(run, run.baselines[name]) for run in runs]
    edges = range(len(found[0][1].per_edge))
    return {
        "mean": scoring.mean([run.mean(one.per_edge) for run, one in found]),
        "per_edge": [scoring.mean([one.per_edge[edge] for _, one in found]) for edge in edges],
        "pooled": scoring.mean([run.mean(one.pooled) for run, one in found]),
        "loss": scoring.mean([run.mean(_shown(one.losses, task)) for run, one in found]),
    }


def _shown(losses: list[float | None], task: str) -> list[float | None]:
    """Losses as they are shown: of a regression, the root of each edge's mean squared error."""
    return losses if task == "classify" else [None if loss is None else math.sqrt(loss) for loss in losses]
