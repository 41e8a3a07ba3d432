"""Air quality in Beijing (KDD Cup 2018): how bad will the air be in an hour? One edge per station, 35 in all.

The inputs at hour t are a station's six pollutants in the last eight hours, the time since each was last measured, the
weather at the nearest meteorological station and the time of day. The label is PM2.5 at t + 1. A missing value is
filled with the last measured one, never with a later one. Hours without a label are left out.
https://www.biendata.xyz/competition/kdd_2018.
"""

import math
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.event_frame import split_by_edge
from alphaedge.data.stream import Dataset

ARCHIVE: Final = Archive("kddcup2018", "https://www.biendata.xyz/competition/kdd_2018")
POLLUTANTS: Final = ("PM2.5", "PM10", "NO2", "CO", "O3", "SO2")
WEATHER: Final = ("temperature", "pressure", "humidity", "wind_speed", "wind_east", "wind_north")
DEFAULT_WEATHER: Final = {"temperature": 10.0, "pressure": 1010.0, "humidity": 50.0}  # before the first weather report
HOURS: Final = 8
LABEL_SCALE: Final = 50.0  # micrograms per cubic metre: a typical value
MAX_AGE_HOURS: Final = 24  # an older measurement counts as none
PAST: Final = tuple(f"{p} {h} h ago" for p in POLLUTANTS for h in range(HOURS))
NOW: Final = (*(f"age of {p}" for p in POLLUTANTS), *WEATHER, "weather is known", "day_sin", "day_cos")
# The last PM2.5 comes first, where the change model expects it.
FIELDS: Final = (Field("past", "number", len(PAST)), Field("now", "number", len(NOW)))


def load() -> Dataset:
    """Load all hours of all stations whose next hour has a PM2.5 value."""
    air = _air()
    stations = sorted(air["station"].unique())
    hours = air.select(pl.datetime_range(pl.col("time").min(), pl.col("time").max(), "1h").alias("time"))
    grid = pl.DataFrame({"station": stations}).join(hours, how="cross").sort("station", "time")
    grid = grid.join(air, on=["station", "time"], how="left", maintain_order="left")
    grid = grid.with_columns(
        *(pl.col(p).forward_fill().over("station").alias(f"{p} 0 h ago") for p in POLLUTANTS),
        *((_age(p) / MAX_AGE_HOURS).clip(0, 1).alias(f"age of {p}") for p in POLLUTANTS),
        label=pl.col("PM2.5").shift(-1).over("station"),
    )
    grid = grid.with_columns(
        pl.col(f"{p} 0 h ago").shift(h).over("station").alias(f"{p} {h} h ago")
        for p in POLLUTANTS
        for h in range(1, HOURS)
    )
    # Before the first measurement there is nothing to predict from.
    grid = grid.filter(pl.col("label").is_not_null() & pl.col("PM2.5 0 h ago").is_not_null())
    weather = _weather(stations).with_columns(measured="time")
    grid = grid.join_asof(weather, on="time", by="station", strategy="backward", check_sortedness=False)
    day = pl.col("time").dt.hour() * (2 * math.pi / 24)
    grid = grid.with_columns(
        (pl.col("time") - pl.col("measured") <= pl.duration(hours=6)).fill_null(False).alias("weather is known"),
        *(pl.col(name).fill_null(value) for name, value in DEFAULT_WEATHER.items()),
        day.sin().alias("day_sin"),
        day.cos().alias("day_cos"),
        edge=pl.col("station").replace_strict({s: e for e, s in enumerate(stations)}),
        time=pl.col("time").dt.epoch("s"),
    ).with_columns(pl.col(*PAST, *NOW).fill_null(0))
    parts = split_by_edge(grid, len(stations), FIELDS, {"past": PAST, "now": NOW})
    names = tuple(s.removesuffix("_aq") for s in stations)
    return Dataset("airquality", "regress", FIELDS, parts, names=names, label_scale=LABEL_SCALE)


def _air() -> pl.DataFrame:
    """Read station, time and pollutants from three files. Of several rows for one hour, the first counts."""
    parts = []
    for member in ("beijing_17_18_aq.csv", "beijing_201802_201803_aq.csv", "bj_aq_online.csv"):
        part = _csv(member)
        part = part.rename(lambda c: c.replace("PM25", "PM2.5").removesuffix("_Concentration"))
        part = part.rename({"stationId": "station", "utc_time": "time", "station_id": "station"}, strict=False)
        parts.append(part.select("station", _time(), *(pl.col(p).cast(pl.Float32) for p in POLLUTANTS)))
    return pl.concat(parts).unique(["station", "time"], keep="first", maintain_order=True)


def _age(pollutant: str) -> pl.Expr:
    """Return the hours since the pollutant was last measured."""
    hour = pl.int_range(pl.len()).over("station")
    seen = pl.when(pl.col(pollutant).is_not_null()).then(hour).forward_fill().over("station")
    return (hour - seen).fill_null(MAX_AGE_HOURS)


def _weather(stations: list[str]) -> pl.DataFrame:
    """Return the weather at the meteorological station nearest to each air station, in order of time."""
    places = _csv("Beijing_AirQuality_Stations.csv").select(station="Station ID", x="longitude", y="latitude")
    posts = _csv("meo_18stations_coordinates.csv").rename({"longitude": "mx", "latitude": "my"})
    # At this latitude, a degree of longitude is 0.77 times as long as one of latitude.
    far = ((pl.col("x") - pl.col("mx")) * 0.77) ** 2 + (pl.col("y") - pl.col("my")) ** 2
    nearest = places.join(posts, how="cross").sort(far).group_by("station", maintain_order=True).first()
    missing = set(stations) - set(nearest["station"])
    if missing:
        raise ValueError(f"no coordinates for {sorted(missing)}")
    angle = pl.col("wind_direction") * (math.pi / 180)
    blows = pl.col("wind_direction") <= 360  # 999017 means calm or variable wind
    weather = _csv("meo_18stations_hourly.csv").select(
        "station_id",
        _time("utc_time"),
        *(pl.col(c).cast(pl.Float32) for c in WEATHER[:4]),
        wind_east=pl.when(blows).then(angle.sin() * pl.col("wind_speed")).otherwise(0.0),
        wind_north=pl.when(blows).then(angle.cos() * pl.col("wind_speed")).otherwise(0.0),
    )
    return nearest.select("station", "station_id").join(weather, on="station_id").drop("station_id").sort("time")


def _csv(member: str) -> pl.DataFrame:
    return pl.read_csv(read(ARCHIVE, member).getvalue().replace(b"\r", b""), infer_schema_length=None)


def _time(column: str = "time") -> pl.Expr:
    return pl.col(column).str.to_datetime("%Y-%m-%d %H:%M:%S").alias("time")
