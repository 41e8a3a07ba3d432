"""Ta-Feng grocery store: will a customer buy a product today? Edges are where customers live.

A stand-in for the paper's private Dataset-B. Every (day, customer, product) of the receipts of November 2000 to
February 2001 is a positive; for each, one product that the customer did not buy that day is drawn from the assortment,
the products sold in the store in the last four weeks, that day included. A price is the product's mean on the last
day before that it was sold. https://www.kaggle.com/datasets/chiranjivdas09/ta-feng-grocery-dataset.
"""

from typing import Final

import numpy as np
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.frame import codes, field, streams
from alphaedge.data.stream import Dataset

ARCHIVE: Final = Archive("tafeng", "https://www.kaggle.com/datasets/chiranjivdas09/ta-feng-grocery-dataset")
# The store's own district, its largest neighbour across the city limit, the rest of the city's centre, all others.
REGIONS: Final = {"115": 0, "221": 1, "110": 2, "105": 2, "106": 2, "114": 3, "Others": 3, "Unknown": 3}
ASSORTMENT_DAYS: Final = 28


def load(*, by_area: bool = False, seed: int = 0) -> Dataset:
    """Purchases and products left alone, in the order of days; within a day shuffled."""
    sold = _receipts()
    rng = np.random.default_rng(seed)
    pairs = _with_negatives(sold, rng)
    who = sold.group_by("customer").agg(pl.col("age", "area").first())
    what = sold.group_by("product").agg(pl.col("subclass").first())
    prices = sold.group_by("product", "day").agg(price=pl.col("price").mean()).sort("day")
    frame = pairs.join(who, on="customer", how="left").join(what, on="product", how="left")
    frame = frame.sort("day", "customer", "product").join_asof(
        prices, on="day", by="product", strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    frame = frame.with_columns(time=pl.col("day") + pl.Series(rng.random(len(frame))))
    areas = sorted(REGIONS)
    numbers = dict(zip(areas, range(len(areas)), strict=True)) if by_area else REGIONS
    frame = frame.with_columns(
        edge=pl.col("area").replace_strict(numbers),
        area=codes(pl.col("area")),
        age=codes(pl.col("age")),
        subclass=codes(pl.col("subclass")),
        price_known=pl.col("price").is_not_null(),
        log_price=pl.col("price").log1p().fill_null(0),
    )
    fields = (
        field(frame, "customer", "id"),
        field(frame, "product", "id"),
        *(field(frame, c, "category") for c in ("subclass", "age", "area")),
        Field("price", "number", 2),
    )
    name = "tafeng-areas" if by_area else "tafeng"
    parts = streams(frame, len(set(numbers.values())), fields, {"price": ["log_price", "price_known"]})
    return Dataset(name, "classify", fields, parts)


def _receipts() -> pl.DataFrame:
    """One row for each day, customer and product: with age group, area, subclass and unit price."""
    text = read(ARCHIVE, "ta_feng_all_months_merged.csv").getvalue().removeprefix(b"\xef\xbb\xbf")
    raw = pl.read_csv(text, infer_schema=False)
    lines = raw.select(
        day=pl.col("TRANSACTION_DT").str.to_date("%m/%d/%Y").dt.epoch("d"),
        customer=codes(pl.col("CUSTOMER_ID")),
        product=codes(pl.col("PRODUCT_ID")),
        subclass="PRODUCT_SUBCLASS",
        age="AGE_GROUP",
        area="PIN_CODE",
        price=pl.col("SALES_PRICE").cast(pl.Float64) / pl.col("AMOUNT").cast(pl.Float64).clip(1),
    )
    return lines.unique(["day", "customer", "product"], keep="first", maintain_order=True)


def _with_negatives(sold: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """day, customer, product and label: every purchase, and for each a product that was left alone."""
    bought = sold.select("day", "customer", "product")
    shelves = {day: np.unique(part["product"].to_numpy()) for (day,), part in bought.group_by("day")}
    drawn = []
    for (day,), part in bought.group_by("day", maintain_order=True):
        recent = [shelves[d] for d in shelves if 0 <= int(str(day)) - int(str(d)) < ASSORTMENT_DAYS]
        assortment = np.unique(np.concatenate(recent))
        drawn.append(part.with_columns(product=pl.Series(rng.choice(assortment, len(part)), dtype=pl.Int64)))
    negatives = pl.concat(drawn).join(bought, on=["day", "customer", "product"], how="anti")
    labels = (bought.with_columns(label=pl.lit(1.0)), negatives.with_columns(label=pl.lit(0.0)))
    return pl.concat(labels)
