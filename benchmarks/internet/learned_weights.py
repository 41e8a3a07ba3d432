"""What learning really yields: the shares of planted peers and of others in a simulated fleet, beside the model.

The synthetic store has clusters of regions with the same taste. AlphaEdge runs on it with all that belongs to it, and
each share of a mix is put down to a peer of the same cluster or of another one.
"""

from typing import Any, cast

import numpy as np
import polars as pl

from alphaedge.core.methods import alphaedge
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.simulation.simulate import simulate
from benchmarks.internet.worlds import Floats, LearnedWeights

QUANTILES = (0.1, 0.5, 0.9)


def measure(store: Store, weights: LearnedWeights) -> dict[str, Any]:
    """Shares in the simulator and in the model, for peers of the same cluster and of others."""
    cluster = synthetic(store).clusters
    assert cluster is not None
    mixes = simulate(methods=["alphaedge"], store=store, seeds=1).weights.filter(pl.col("edge") != pl.col("peer"))
    edge, peer, share = (mixes[name].to_numpy() for name in ("edge", "peer", "share"))
    same = np.array(cluster)[edge] == np.array(cluster)[peer]
    rng, found = np.random.default_rng(0), {}
    for name, real, number in (("same cluster", share[same], 0), ("another cluster", share[~same], 1)):
        found[name] = {"simulator": _summary(real), "model": _summary(_model(weights, number, float(same.mean()), rng))}
    return found


def measure_hubs(store: Store) -> dict[str, list[int]]:
    """How many edges pull from the busiest one, and how many edges are pulled from, by aggregation of the simulator.

    Only aggregations of all edges are counted. Edges aggregate often, so that there are many aggregations.
    """
    method = alphaedge(aggregate_every=5, home=None)
    mixes = simulate(methods={"alphaedge": method}, store=store, seeds=1).weights.filter(
        pl.col("edge") != pl.col("peer")
    )
    found: dict[str, list[int]] = {"aggregation": [], "busiest": [], "pulled from": []}
    for (number,), some in mixes.group_by("aggregation", maintain_order=True):
        if some["edge"].n_unique() == store.edges:
            pullers = some["peer"].value_counts()["count"]
            for name, value in zip(found, (number, pullers.max(), len(pullers)), strict=True):
                found[name].append(int(cast(int, value)))
    order = np.argsort(found["aggregation"])
    return {name: [values[place] for place in order] for name, values in found.items()}


def _model(weights: LearnedWeights, other: int, planted: float, rng: np.random.Generator) -> Floats:
    """Shares by the model, of one peer among K of which as many are planted as in the simulator."""
    draws, peers = 10_000, Greedy().peers
    cluster = np.zeros((draws, peers), np.int32)
    others = (rng.random((draws, peers)) >= planted).astype(np.int32)
    others[:, 0] = other
    raw = weights.draw(cluster, others, rng)
    shares: Floats = raw[:, 0] / (1 + raw.sum(1))
    return shares


def _summary(shares: Floats) -> dict[str, float]:
    quantiles = {f"{at:.0%}": round(float(np.quantile(shares, at)), 3) for at in QUANTILES}
    return quantiles | {"useless": round(float((shares < Greedy().useless).mean()), 3), "mixes": len(shares)}
