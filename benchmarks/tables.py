"""Tables with all defaults against simple baselines: air quality, a shop far from 0, and a series with a trend.

Each table is written as a CSV file and simulated as a user would: ``simulate(table=...)`` without settings. Beside the
methods are the running mean of the edge, its last value where the table has one, and three online ridge regressions of
the edge: ``recursive`` updates its weights batch by batch, ``whole`` is the baseline of verdicts, solved for all rows
so far whenever they have grown by a twentieth, and ``river`` is the one of that library, which learns event by event.
All predict a batch before they learn from it, and are scored like the methods, 1-SMAPE.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from alphaedge.core.fields import WHOLE
from alphaedge.data import airquality
from alphaedge.data.stream import Dataset, Stream
from alphaedge.data.table import Table, load
from alphaedge.scoring import one_minus_smape
from alphaedge.simulation.baselines import events_known
from alphaedge.simulation.config import Settings
from alphaedge.simulation.ridge_baseline import ridge_columns, ridge_predictions
from alphaedge.simulation.simulate import simulate
from benchmarks.common import arguments, report

Array = npt.NDArray[np.float64]
METHODS: Final = ("alphaedge", "noagg")
PENALTY: Final = 1.0


def shop_table(edges: int, rows: int, seed: int = 0) -> pl.DataFrame:
    """Sales of about 500 with effects of shop, product, weekday, promotion, price and temperature."""
    rng, parts = np.random.default_rng(seed), []
    products = rng.normal(0, 0.25, 20)
    week = np.array([0, -0.05, 0, 0.05, 0.1, 0.35, -0.3])
    for edge in range(edges):
        shop, day = rng.normal(0, 0.2), np.sort(rng.integers(0, 365, rows))
        product, promotion, price = rng.integers(0, 20, rows), rng.random(rows) < 0.15, rng.normal(0, 1, rows)
        temperature = 10 + 10 * np.sin(2 * np.pi * day / 365) + rng.normal(0, 3, rows)
        own_week, own_products = week + rng.normal(0, 0.05, 7), products + rng.normal(0, 0.1, 20)
        share = 1 + shop + own_week[day % 7] + own_products[product] - 0.06 * price + 0.3 * promotion
        sales = 500 * (share + 0.005 * (temperature - 10) + rng.normal(0, 0.08, rows))
        parts.append(
            pl.DataFrame(
                {
                    "day": day,
                    "shop": [f"shop {edge}"] * rows,
                    "product": [f"p{p}" for p in product],
                    "weekday": [f"d{d % 7}" for d in day],
                    "promotion": [str(bool(p)) for p in promotion],
                    "price": 20 + 3 * price,
                    "temperature": temperature,
                    "sales": sales,
                }
            )
        )
    return pl.concat(parts)


def trend_table(edges: int, rows: int, seed: int = 0) -> pl.DataFrame:
    """A random walk with a drift and a daily wave around 0, with its lags."""
    rng, parts = np.random.default_rng(seed), []
    for edge in range(edges):
        hour = np.arange(rows + 24)
        wave = 4 * np.sin(2 * np.pi * hour / 24 + rng.normal(0, 0.3))
        value = np.cumsum(rng.normal(0.01, 0.5, len(hour))) + wave + rng.normal(0, 1, len(hour))
        now = hour[24:]
        parts.append(
            pl.DataFrame(
                {
                    "time": now,
                    "station": [f"s{edge}"] * rows,
                    **{f"ago_{h}": value[24 - h : len(hour) - h] for h in (1, 2, 24)},
                    "hour_sin": np.sin(2 * np.pi * now / 24),
                    "hour_cos": np.cos(2 * np.pi * now / 24),
                    "value": value[24:],
                }
            )
        )
    return pl.concat(parts)


def air_table(data: Dataset) -> pl.DataFrame:
    """The air quality data as a plain table: 8 hours of six pollutants, the weather, the time of day."""
    names = {"past": airquality.PAST, "now": airquality.NOW}
    parts = []
    for stream, station in zip(data.streams, data.edge_names, strict=True):
        columns = {n: stream.inputs[f][:, i].numpy() for f, some in names.items() for i, n in enumerate(some)}
        whole = {"time": stream.times.numpy(), "station": [station] * len(stream), **columns}
        parts.append(pl.DataFrame({**whole, "pm25": stream.labels.numpy()}))
    return pl.concat(parts)


def score_of(predictions: Array, labels: torch.Tensor, size: int) -> float:
    """The mean score of the batches of one edge."""
    count = len(labels) // size
    cut = [torch.as_tensor(x)[: count * size].double().view(count, size) for x in (predictions, labels)]
    return float(one_minus_smape(*cut).mean())


def design(data: Dataset, stream: Stream) -> Array:
    """The inputs of a linear model: numbers, and ids and categories as one-hot vectors; missing numbers are 0."""
    parts = []
    for field in data.fields:
        values = stream.inputs[field.name]
        one_hot = torch.nn.functional.one_hot(values, field.size) if field.kind in WHOLE else values.nan_to_num()
        parts.append(one_hot.double().numpy())
    return np.concatenate(parts, axis=1)


def running_mean(data: Dataset, stream: Stream, size: int) -> Array:
    """The mean of all earlier batches."""
    labels = stream.labels.double().numpy()
    return np.concatenate([np.full(size, labels[:n].mean() if n else 0) for n in range(0, len(labels), size)])


def persistence(data: Dataset, stream: Stream, size: int) -> Array:
    """The last value, or 0 where it is missing."""
    assert data.last is not None
    return stream.inputs[data.last][:, 0].nan_to_num().double().numpy()


def whole_ridge(data: Dataset, stream: Stream, size: int) -> Array:
    """The ridge regression that verdicts compare with: solved for all earlier batches, again and again."""
    known = events_known(len(stream), size, 0)
    return ridge_predictions(ridge_columns(data.fields), stream, stream.labels, known).numpy()


def recursive_ridge(data: Dataset, stream: Stream, size: int) -> Array:
    """Recursive least squares: one-hot vectors and numbers standardised as known so far, weights updated by batches."""
    inputs, labels, found = design(data, stream), stream.labels.double().numpy(), list[Array]()
    width = inputs.shape[1]
    weights, gram = np.zeros(width + 1), PENALTY * np.eye(width + 1)
    for n in range(0, len(labels) - size + 1, size):
        now = inputs[n : n + size]
        middle, deviation = (inputs[:n].mean(0), inputs[:n].std(0)) if n else (np.zeros(width), np.zeros(width))
        x = np.concatenate([(now - middle) / np.where(deviation > 1e-9, deviation, 1), np.ones((size, 1))], axis=1)
        if not n:
            x[:, :width] = 0
        found.append(x @ weights)
        gram += x.T @ x
        weights = weights + np.linalg.solve(gram, x.T @ (labels[n : n + size] - found[-1]))
    return np.concatenate(found)


def river_ridge(data: Dataset, stream: Stream, size: int) -> Array:
    """river's Bayesian linear regression: numbers standardised as known so far, ids and categories as one-hot vectors.

    Missing numbers are 0. It has no intercept, so it gets a column that is always 1.
    """
    from river import compose, linear_model, preprocessing

    values = {f.name: stream.inputs[f.name] for f in data.fields}
    whole = {f.name: [str(v) for v in values[f.name].tolist()] for f in data.fields if f.kind in WHOLE}
    numbers = {
        f"{f.name}/{i}": values[f.name][:, i].nan_to_num().tolist()
        for f in data.fields
        if f.kind not in WHOLE
        for i in range(f.size)
    }
    whole["always"] = ["1"] * len(stream)
    inputs = compose.Select(*numbers) | preprocessing.StandardScaler()
    inputs += compose.Select(*whole) | preprocessing.OneHotEncoder()
    model, labels, found = inputs | linear_model.BayesianLinearRegression(), stream.labels.tolist(), list[float]()
    columns = numbers | whole
    for n in range(0, len(labels) - size + 1, size):
        rows = [{name: column[i] for name, column in columns.items()} for i in range(n, n + size)]
        found += [float(model.predict_one(row) or 0) for row in rows]
        for row, label in zip(rows, labels[n : n + size], strict=True):
            model.learn_one(row, label)
    predictions: Array = np.nan_to_num(np.array(found))
    return predictions


Baseline = Callable[[Dataset, Stream, int], Array]
BASELINES: Final[dict[str, Baseline]] = {
    "running mean": running_mean,
    "persistence": persistence,
    "recursive ridge": recursive_ridge,
    "whole ridge": whole_ridge,
    "river ridge": river_ridge,
}


def baseline_scores(data: Dataset, size: int) -> dict[str, float]:
    """The mean score over edges of each baseline that the data have."""
    return {
        name: float(np.mean([score_of(predict(data, s, size), s.labels, size) for s in data.streams]))
        for name, predict in BASELINES.items()
        if name != "persistence" or data.last is not None
    }


def measure(file: Path, frame: pl.DataFrame, said: tuple[str, str, str]) -> dict[str, float | str]:
    """Simulate a table with all defaults, and score the baselines on the same batches."""
    frame.write_csv(file)
    time, edge, label = said
    table = Table(file=str(file), time=time, edge=edge, label=label)
    settings = Settings(data="table", table=table, methods=METHODS).resolved()
    found = simulate(settings).summary()["methods"]
    data = load(table)
    row: dict[str, float | str] = {"B": settings.size, "E": settings.method.aggregate_every or 10}
    row |= {"last": data.last or "none", "relative": str(data.relative), "edges": len(data.streams)}
    row |= {name: found[name]["mean"] for name in METHODS}
    return row | baseline_scores(data, settings.size)


def main() -> None:
    """Measure all tables. What was chosen for tables was chosen on the first quarter of the air quality data."""
    options = arguments("Tables with all defaults against simple baselines.")
    edges, rows = (4, 600) if options.quick else (8, 1500)
    air = airquality.load()
    events = sum(len(stream) for stream in air.streams)
    tables = {
        "shop": (shop_table(edges, rows, seed=1), ("day", "shop", "sales")),
        "trend": (trend_table(edges, rows, seed=1), ("time", "station", "value")),
        "airquality after the first quarter": (
            air_table(air.first(0.1) if options.quick else air.window(events - events // 4)),
            ("time", "station", "pm25"),
        ),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (frame, said) in tables.items():
            found[name] = measure(Path(folder) / "table.csv", frame, said)
    columns = ["table", "B", "E", "last", *METHODS, *BASELINES]
    shown = [[name, *(_cell(row.get(column)) for column in columns[1:])] for name, row in found.items()]
    report("Scores (1-SMAPE) with all defaults", columns, shown, found, options.json)


def _cell(value: float | str | None) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value or "")


if __name__ == "__main__":
    main()
