"""Every reading that the paper leaves open, changed one at a time, on the synthetic regional store.

Prints the mean AUC of each reading with its paired difference to ``AlphaEdge()`` over the same seeds.
"""

from dataclasses import replace

from alphaedge.core.aggregation import Learned
from alphaedge.core.home import Home
from alphaedge.core.methods import AlphaEdge, FedWeight, Method, NoAgg, NoPS, RandPS, UniWeight
from alphaedge.core.selection import Everybody, Greedy, Random
from alphaedge.data.synthetic import Store
from alphaedge.metrics import interval95
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.simulate import simulate
from benchmarks.common import arguments, report


def readings() -> dict[str, Method]:
    """Names and methods."""
    base = AlphaEdge()
    rule, peers = Learned(), Greedy()
    found: dict[str, Method] = {"AlphaEdge()": base, "AlphaEdge.paper()": AlphaEdge.paper()}
    for name, value in {
        "weight rate 0.001": replace(rule, rate=0.001),
        "weight rate 0.05": replace(rule, rate=0.05),
        "weight rate 0.5": replace(rule, rate=0.5),
        "weights learned on 1 batch": replace(rule, batches=1),
        "weights learned on 10 batches": replace(rule, batches=10),
        "newcomers at 0": replace(rule, newcomer=0.0),
        "newcomers at 1": replace(rule, newcomer=1.0),
        "replaced peers forgotten": replace(rule, remember=False),
        "no pull to records": replace(rule, pull=0.0),
    }.items():
        found[name] = replace(base, aggregation=value)
    for name, choice in {
        "replace in any case": replace(peers, keep_better=False),
        "useless peers stay": replace(peers, useless=0.0),
        "two peers replaced": replace(peers, replace=2),
        "newcomers at random, not two-hop": replace(peers, two_hop=False),
    }.items():
        found[name] = replace(base, selection=choice)
    return found | {
        "publish the mixed model": replace(base, publish="mixed"),
        "no training on aggregation batches": replace(base, train_on_aggregation=False),
        "no cold start from peers": replace(base, adopt_rows=False),
        "E = 10": replace(base, aggregate_every=10),
        "no home model": replace(base, home=None),
        "home model, the better one predicts": replace(base, home=Home(blend=False)),
        "RandPS()": RandPS(),
        "NoPS()": NoPS(),
        "FedWeight()": FedWeight(),
        "UniWeight()": UniWeight(),
        "UniWeight, peers resampled": UniWeight(selection=Random()),
        "UniWeight, everybody": UniWeight(selection=Everybody()),
        "NoAgg()": NoAgg(),
    }


def main() -> None:
    """Measure, print, write."""
    args = arguments(
        __doc__ or "",
        seeds={"type": int, "default": 3},
        adversaries={"type": float, "default": 0.0, "help": "share of hostile edges"},
        store={"type": int, "default": 1000, "help": "first seed of the stores; 0 to 2 served to choose the defaults"},
        only={"default": "", "help": "names that contain this text, besides AlphaEdge()"},
    )
    store = Store(edges=6, events=3000, seed=args.store) if args.quick else Store(seed=args.store)
    methods = {n: m for n, m in readings().items() if n == "AlphaEdge()" or args.only in n}
    if args.quick:
        methods = dict(list(methods.items())[:3])
    conditions = Conditions(adversaries=args.adversaries)
    found = simulate(methods=methods, store=store, seeds=args.seeds, conditions=conditions, jobs=2).summary()["methods"]
    base = found["AlphaEdge()"]["per_seed"]
    rows, figures = [], {}
    for name in methods:
        gaps = [a - b for a, b in zip(found[name]["per_seed"], base, strict=True)]
        gap, spread = sum(gaps) / len(gaps), interval95(gaps)
        figures[name] = {"mean": found[name]["mean"], "difference": gap, "ci95": spread}
        margin = f"± {spread:.4f}" if spread is not None else ""
        rows.append([name, f"{found[name]['mean']:.4f}", "" if name == "AlphaEdge()" else f"{gap:+.4f} {margin}"])
    columns = ["reading", "AUC", "difference (95% interval)"]
    report(f"synthetic store, {args.seeds} seeds", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
