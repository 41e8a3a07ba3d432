"""Settings of the rivals from the literature that their papers leave open, on the data that AlphaEdge's were chosen on.

That is the synthetic store, and the first quarter of AirQuality and MovieLens. Prints the mean score of each variant by
data set, and their sum, by which the defaults were chosen.
"""

from collections.abc import Mapping
from typing import Any, Final

from alphaedge.core.home import Home
from alphaedge.core.methods import Method, apfl, ditto, fedfomo, l2c, pens
from alphaedge.core.rules.aggregation.rivals.fedfomo import FedFomo
from alphaedge.core.rules.aggregation.rivals.l2c import L2C
from alphaedge.core.rules.aggregation.rivals.pens import Pens
from alphaedge.core.rules.aggregation.rivals.proximal import Proximal
from alphaedge.data.synthetic import Store
from alphaedge.simulation.config import Settings
from alphaedge.simulation.simulate import simulate
from benchmarks.common import arguments, report

DATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "synthetic": {},
    "airquality": {"first": 0.25},
    "movielens": {"first": 0.25},
}


def variants() -> dict[str, Method]:
    """Return the methods to compare, by name."""
    return {
        **{f"pens, kept {n}": pens(aggregation=Pens(kept=n)) for n in (1, 2, 3, 5)},
        **{f"pens, {n} weight batches": pens(aggregation=Pens(weight_batches=n)) for n in (1, 5)},
        **{f"fedfomo, own {x}": fedfomo(aggregation=FedFomo(own=x)) for x in (0.0, 0.25, 0.5, 0.75)},
        **{f"fedfomo, {n} weight batches": fedfomo(aggregation=FedFomo(weight_batches=n)) for n in (1, 5)},
        **{f"l2c, rate {x}": l2c(aggregation=L2C(rate=x)) for x in (0.03, 0.1, 0.3, 1.0)},
        **{f"l2c, {n} weight batches": l2c(aggregation=L2C(weight_batches=n)) for n in (1, 2)},
        **{f"ditto, pull {x}": ditto(aggregation=Proximal(pull=x)) for x in (0.03, 0.1, 0.3, 0.6)},
        **{f"apfl, start {x}": apfl(home=Home(start=x)) for x in (0.5, 0.9)},
    }


def main() -> None:
    """Measure and report."""
    args = arguments(
        __doc__ or "",
        seeds={"type": int, "default": 1},
        data={"default": ",".join(DATA), "help": "data sets, separated by commas"},
        only={"default": "", "help": "only variants whose names contain this text"},
    )
    names = ["synthetic"] if args.quick else args.data.split(",")
    methods = {name: method for name, method in variants().items() if args.only in name}
    figures: dict[str, dict[str, float]] = {name: {} for name in methods}
    for data in names:
        shared: dict[str, Any] = {"seeds": args.seeds, "store": Store(edges=6, events=1500) if args.quick else Store()}
        settings = Settings(data=data, **shared, **DATA[data])
        summary = simulate(settings, methods=methods, jobs=1 if args.quick else 2).summary()["methods"]
        for name, row in summary.items():
            figures[name][data] = row["mean"]
    rows = []
    for name, scores in figures.items():
        rows.append([name, *(f"{x:.4f}" for x in scores.values()), f"{sum(scores.values()):.4f}"])
    report("settings of the rivals", ["variant", *names, "sum"], rows, figures, args.json)


if __name__ == "__main__":
    main()
