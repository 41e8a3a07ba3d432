"""Variants of AlphaEdge where the paper leaves a choice open, one change at a time, on the synthetic store.

Prints the mean AUC of each variant, and its difference to ``alphaedge()`` paired by seed.
"""

from dataclasses import replace

from alphaedge.core.home import Home
from alphaedge.core.methods import Method, alphaedge, alphaedge_paper, fedweight, noagg, nops, randps, uniweight
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.random import Random
from alphaedge.data.synthetic import Store
from alphaedge.scoring import interval95
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.simulate import simulate
from benchmarks.common import arguments, report

BASE = "alphaedge()"


def readings() -> dict[str, Method]:
    """Return the methods to compare, by name."""
    base, rule, peers = alphaedge(), Learned(), Greedy()
    rules = {
        "weight rate 0.001": replace(rule, rate=0.001),
        "weight rate 0.05": replace(rule, rate=0.05),
        "weight rate 0.5": replace(rule, rate=0.5),
        "weights learned on 1 batch": replace(rule, weight_batches=1),
        "weights learned on 10 batches": replace(rule, weight_batches=10),
        "newcomers at 0": replace(rule, newcomer=0.0),
        "newcomers at 1": replace(rule, newcomer=1.0),
        "replaced peers forgotten": replace(rule, remember=False),
        "no prior by records": replace(rule, prior=0.0),
    }
    selections = {
        "replace in any case": replace(peers, keep_better=False),
        "useless peers stay": replace(peers, useless=0.0),
        "two peers replaced": replace(peers, replace=2),
        "newcomers at random, not two-hop": replace(peers, two_hop=False),
    }
    return {
        BASE: base,
        "alphaedge_paper()": alphaedge_paper(),
        **{name: replace(base, aggregation=value) for name, value in rules.items()},
        **{name: replace(base, selection=value) for name, value in selections.items()},
        "publish the mixed model": replace(base, publish="mixed"),
        "no training on aggregation batches": replace(base, train_on_aggregation=False),
        "no cold start from peers": replace(base, adopt_rows=False),
        "E = 20": replace(base, aggregate_every=20),
        "no home model": replace(base, home=None),
        "home model, half of each predicts": replace(base, home=Home(start=0.5, prior=1e12)),
        "randps()": randps(),
        "nops()": nops(),
        "fedweight()": fedweight(),
        "uniweight()": uniweight(),
        "uniweight(), peers resampled": uniweight(selection=Random()),
        "uniweight(), everybody": uniweight(selection=Everybody()),
        "noagg()": noagg(),
    }


def main() -> None:
    """Measure and report."""
    args = arguments(
        __doc__ or "",
        seeds={"type": int, "default": 3},
        adversaries={"type": float, "default": 0.0, "help": "share of hostile edges"},
        store={"type": int, "default": 1000, "help": "first seed of the stores; the defaults were chosen on 0 to 2"},
        only={"default": "", "help": "only variants whose names contain this text, and alphaedge()"},
    )
    store = Store(edges=6, events=3000, seed=args.store) if args.quick else Store(seed=args.store)
    methods = {n: m for n, m in readings().items() if n == BASE or args.only in n}
    if args.quick:
        methods = dict(list(methods.items())[:3])
    conditions = Conditions(adversaries=args.adversaries)
    results = simulate(methods=methods, store=store, seeds=args.seeds, conditions=conditions, jobs=2)
    summary = results.summary()["methods"]
    base = summary[BASE]["per_seed"]
    rows, figures = [], {}
    for name in methods:
        gaps = [a - b for a, b in zip(summary[name]["per_seed"], base, strict=True)]
        gap, spread = sum(gaps) / len(gaps), interval95(gaps)
        figures[name] = {"mean": summary[name]["mean"], "difference": gap, "ci95": spread}
        margin = f"± {spread:.4f}" if spread is not None else ""
        rows.append([name, f"{summary[name]['mean']:.4f}", "" if name == BASE else f"{gap:+.4f} {margin}"])
    columns = ["variant", "AUC", "difference (95% interval)"]
    report(f"synthetic store, {args.seeds} seeds", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
