"""Ta-Feng grocery store: will a customer buy a product today? Edges are the areas where customers live.

A stand-in for the paper's private Dataset-B. Every (day, customer, product) in the receipts of November 2000 to
February 2001 is a positive. For each, a product that the customer did not buy that day is drawn as a negative from the
assortment: the products that the store sold in the last four weeks, that day included. The price of a product is its
mean price on the last earlier day when it was sold.
https://www.kaggle.com/datasets/chiranjivdas09/ta-feng-grocery-dataset.
"""

from typing import Final

import numpy as np
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.event_frame import code_field, codes, split_by_edge
from alphaedge.data.stream import Dataset

ARCHIVE: Final = Archive("tafeng", "https://www.kaggle.com/datasets/chiranjivdas09/ta-feng-grocery-dataset")
# The district of the store, its largest neighbour outside the city, the rest of the city centre, and all others.
REGIONS: Final = {"115": 0, "221": 1, "110": 2, "105": 2, "106": 2, "114": 3, "Others": 3, "Unknown": 3}
ASSORTMENT_DAYS: Final = 28


def load(*, by_area: bool = False, seed: int = 0) -> Dataset:
    """Load purchases and negatives, in order of days, shuffled within a day."""
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
        code_field(frame, "customer", "id"),
        code_field(frame, "product", "id"),
        *(code_field(frame, c, "code") for c in ("subclass", "age", "area")),
        Field("price", "number", 2),
    )
    name = "tafeng-areas" if by_area else "tafeng"
    parts = split_by_edge(frame, len(set(numbers.values())), fields, {"price": ["log_price", "price_known"]})
    return Dataset(name, "classify", fields, parts)


def _receipts() -> pl.DataFrame:
    """Read one row per day, customer and product, with age group, area, subclass and unit price."""
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
    """Return day, customer, product and label of every purchase, and of a drawn negative for each."""
    bought = sold.select("day", "customer", "product")
    sold_on = {day: np.unique(part["product"].to_numpy()) for (day,), part in bought.group_by("day")}
    drawn = []
    for (day,), part in bought.group_by("day", maintain_order=True):
        recent = [sold_on[d] for d in sold_on if 0 <= int(str(day)) - int(str(d)) < ASSORTMENT_DAYS]
        assortment = np.unique(np.concatenate(recent))
        drawn.append(part.with_columns(product=pl.Series(rng.choice(assortment, len(part)), dtype=pl.Int64)))
    negatives = pl.concat(drawn).join(bought, on=["day", "customer", "product"], how="anti")
    labels = (bought.with_columns(label=pl.lit(1.0)), negatives.with_columns(label=pl.lit(0.0)))
    return pl.concat(labels)
