"""A small table with text ids and categories, to simulate and to run."""

from pathlib import Path

import numpy as np
import polars as pl

SHOPS = ("Köln Süd", "Aarhus", "Bergen", "Gdańsk")


def shop_frame(rows: int = 4000, seed: int = 0) -> pl.DataFrame:
    """Sales of four shops: what sells depends on the item, its kind and its price, a little differently everywhere."""
    rng = np.random.default_rng(seed)
    items, kinds = 60, ("fruit", "tools", "drinks", "paper")
    appeal, kind = rng.normal(size=items) * 1.5, rng.integers(len(kinds), size=items)
    item, shop = rng.integers(items, size=rows), np.arange(rows) % len(SHOPS)
    price = rng.normal(10, 3, size=rows).round(2)
    taste = rng.normal(size=(len(SHOPS), len(kinds))) * 0.3
    logit = appeal[item] + taste[shop, kind[item]] - 0.2 * (price - 10)
    return pl.DataFrame(
        {
            "when": np.arange(rows) * 60.0 + 1_700_000_000,
            "shop": [SHOPS[s] for s in shop],
            "item": [f"item-{i}" for i in item],
            "kind": [kinds[k] for k in kind[item]],
            "price": price,
            "sold": (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int),
        }
    )


def write(frame: pl.DataFrame, path: Path) -> Path:
    frame.write_csv(path)
    return path
