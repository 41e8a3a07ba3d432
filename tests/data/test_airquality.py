"""Air in Beijing: the label is the next hour, and no input depends on it."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch

from alphaedge import Dataset, Stream
from alphaedge.data import airquality
from alphaedge.data.airquality import NOW, PAST
from alphaedge.scoring import one_minus_smape

from .archives import pack, real

START = datetime(2017, 1, 1, 14)
POLLUTANTS = "PM2.5,PM10,NO2,CO,O3,SO2"
ONLINE = "id,station_id,time," + ",".join(f"{p}_Concentration" for p in ["PM25", "PM10", "NO2", "CO", "O3", "SO2"])

Row = tuple[str, int, str]  # station, hour, the six values as they are in the file
FIRST: list[Row] = [
    ("dongsi_aq", 0, "10,11,12,0.5,14,15"),
    ("dongsi_aq", 1, "20,,,,,"),
    ("dongsi_aq", 1, "99,99,99,9.9,99,99"),  # a second row for the hour: the first counts
    ("dongsi_aq", 2, ",31,32,0.7,34,35"),
    # hour 3 is absent
    ("dongsi_aq", 4, "50,,,,,"),
    ("yanqin_aq", 0, ",1,1,1,1,1"),  # no PM2.5 yet: nothing to predict from
    ("yanqin_aq", 1, "5.0,,,,,"),
    ("yanqin_aq", 2, "6.0,,,,,"),
    ("aotizhongxin_aq", 0, "7,,,,,"),
    ("aotizhongxin_aq", 1, "8,,,,,"),
]
SECOND: list[Row] = [("dongsi_aq", 5, "60,,,,,"), ("dongsi_aq", 6, "70,,,,,")]
THIRD: list[Row] = [("dongsi_aq", 6, "999,,,,,"), ("dongsi_aq", 7, "80,,,,,")]
PLACES = ["dongsi_aq,116.417,39.929", "yanqin_aq,115.972,40.453", "aotizhongxin_aq,116.397,39.982"]
POSTS = ["yanqing_meo,115.97,40.45", "dongcheng_meo,116.42,39.93", "haidian_meo,116.39,39.99"]
# station, hour: temperature, pressure, humidity, wind direction, wind speed
WEATHER: list[Row] = [
    ("dongcheng_meo", 0, "-2.5,1028.5,16,90,2"),
    ("dongcheng_meo", 4, "1.5,1020,20,999017,1"),
    ("yanqing_meo", -6, "-9,1000,40,180,3"),  # seven hours old when it is needed first
    ("haidian_meo", 1, "5,1010,30,0,4"),  # after the only hour that could use it
]


def moment(hour: int) -> str:
    return str(START + timedelta(hours=hour))


def write(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Sequence[Row] = FIRST,
    second: Sequence[Row] = SECOND,
    third: Sequence[Row] = THIRD,
    weather: Sequence[Row] = WEATHER,
) -> Dataset:
    """Write the archive with its oddities: other names and line ends in the third file, weather in its own folder."""

    def lines(header: str, rows: Sequence[str], end: str = "\n") -> bytes:
        return "".join(f"{line}{end}" for line in [header, *rows]).encode()

    def air(rows: Sequence[Row]) -> bytes:
        return lines(f"stationId,utc_time,{POLLUTANTS}", [f"{s},{moment(h)},{values}" for s, h, values in rows])

    online = [f"{294 + i},{s},{moment(h)},{values}" for i, (s, h, values) in enumerate(third)]
    hourly = [f"{s},{moment(h)},{values},source" for s, h, values in weather]
    pack(
        folder,
        "kddcup2018",
        {
            "kddcup2018/beijing_17_18_aq.csv": air(first),
            "kddcup2018/beijing_201802_201803_aq.csv": air(second),
            "kddcup2018/bj_aq_online.csv": lines(ONLINE, online, "\r\r\n"),
            "kddcup2018/Beijing_AirQuality_Stations.csv": lines("Station ID,longitude,latitude", PLACES, "\r\n"),
            "kddcup2018/derived/meo_18stations_coordinates.csv": lines("station_id,longitude,latitude", POSTS),
            "kddcup2018/derived/meo_18stations_hourly.csv": lines(
                "station_id,utc_time,temperature,pressure,humidity,wind_direction,wind_speed,src", hourly
            ),
        },
    )
    monkeypatch.setenv("ALPHAEDGE_DATA", str(folder))
    return airquality.load()


def stations(data: Dataset) -> Mapping[str, Stream]:
    assert data.names is not None
    return dict(zip(data.names, data.streams, strict=True))


def hours(stream: Stream) -> list[float]:
    start = (START - datetime(1970, 1, 1)).total_seconds()
    return [(t - start) / 3600 for t in stream.times.tolist()]


def past(stream: Stream, column: str) -> list[float]:
    return stream.inputs["past"][:, PAST.index(column)].tolist()


def now(stream: Stream, column: str) -> list[float]:
    return stream.inputs["now"][:, NOW.index(column)].tolist()


def test_every_station_is_an_edge_named_without_its_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    assert data.names == ("aotizhongxin", "dongsi", "yanqin")
    assert (data.task, data.metric, data.label_scale) == ("regress", "1-SMAPE", 50)
    assert [len(s) for s in data.streams] == [1, 5, 1]


def test_the_label_is_the_next_hours_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dongsi = stations(write(tmp_path, monkeypatch))["dongsi"]
    # Hours 1 and 2 have no label: hour 2 was not measured and hour 3 is absent. Hour 7 is the last.
    assert hours(dongsi) == [0, 3, 4, 5, 6]
    assert dongsi.labels.tolist() == [20, 50, 60, 70, 80]


def test_the_first_number_is_the_last_value_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = stations(write(tmp_path, monkeypatch))
    assert edges["dongsi"].inputs["past"][:, 0].tolist() == [10, 20, 50, 60, 70]
    assert edges["yanqin"].inputs["past"][:, 0].tolist() == [5]
    assert hours(edges["yanqin"]) == [1], "before the first measurement there is nothing to predict from"


def test_the_past_goes_back_eight_hours_with_gaps_filled_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dongsi = stations(write(tmp_path, monkeypatch))["dongsi"]
    at_3 = dongsi.inputs["past"][1].reshape(6, 8)
    assert at_3[0].tolist() == [20, 20, 20, 10, 0, 0, 0, 0]  # hours 3, 2, 1, 0
    assert at_3[1].tolist() == [31, 31, 11, 11, 0, 0, 0, 0]
    torch.testing.assert_close(at_3[3], torch.tensor([0.7, 0.7, 0.5, 0.5, 0, 0, 0, 0]))
    assert past(dongsi, "PM2.5 6 h ago")[-1] == 10
    assert past(dongsi, "PM2.5 5 h ago")[-1] == 20


def test_inputs_hold_the_age_of_each_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = stations(write(tmp_path, monkeypatch))
    assert now(edges["dongsi"], "age of PM2.5") == pytest.approx([0, 2 / 24, 0, 0, 0])
    assert now(edges["dongsi"], "age of SO2") == pytest.approx([0, 1 / 24, 2 / 24, 3 / 24, 4 / 24])
    assert now(edges["yanqin"], "age of PM10") == pytest.approx([1 / 24])
    assert now(edges["aotizhongxin"], "age of PM10") == [1], "a value that was never measured has the maximum age"


def test_an_age_is_at_most_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [("dongsi_aq", 0, "1,1,1,1,1,1"), *(("dongsi_aq", h, "2,,,,,") for h in range(1, 40))]
    data = write(tmp_path, monkeypatch, rows, [], [])
    assert now(data.streams[0], "age of CO") == pytest.approx([min(h, 24) / 24 for h in range(39)])


def test_weather_is_the_last_report_of_the_nearest_station(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dongsi = stations(write(tmp_path, monkeypatch))["dongsi"]
    assert now(dongsi, "temperature") == [-2.5, -2.5, 1.5, 1.5, 1.5]
    assert now(dongsi, "pressure") == [1028.5, 1028.5, 1020, 1020, 1020]
    assert now(dongsi, "humidity") == [16, 16, 20, 20, 20]
    assert now(dongsi, "wind_speed") == [2, 2, 1, 1, 1]
    assert now(dongsi, "wind_east") == pytest.approx([2, 2, 0, 0, 0]), "999017 is no direction"
    assert now(dongsi, "wind_north") == pytest.approx([0, 0, 0, 0, 0], abs=1e-6)
    assert now(dongsi, "weather is known") == [1, 1, 1, 1, 1]


def test_old_weather_is_marked_and_later_weather_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = stations(write(tmp_path, monkeypatch))
    assert now(edges["yanqin"], "temperature") == [-9]
    assert now(edges["yanqin"], "wind_north") == pytest.approx([-3])
    assert now(edges["yanqin"], "weather is known") == [0]
    unknown = edges["aotizhongxin"]
    usual = ("temperature", "pressure", "humidity", "wind_speed", "wind_east", "wind_north", "weather is known")
    assert [now(unknown, c) for c in usual] == [[10], [1010], [50], [0], [0], [0], [0]]


def test_the_time_of_day_is_a_point_on_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dongsi = stations(write(tmp_path, monkeypatch))["dongsi"]
    angles = [2 * math.pi * (14 + h) / 24 for h in (0, 3, 4, 5, 6)]
    assert now(dongsi, "day_sin") == pytest.approx([math.sin(a) for a in angles], abs=1e-6)
    assert now(dongsi, "day_cos") == pytest.approx([math.cos(a) for a in angles], abs=1e-6)


@pytest.mark.parametrize("last", range(8))
def test_later_measurements_change_no_input(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(rows: Sequence[Row], values: str) -> list[Row]:
        return [(s, h, v if h <= last else values) for s, h, v in rows]

    before = write(tmp_path / "a", monkeypatch)
    parts = [other(rows, "77,78,79,80,81,82") for rows in (FIRST, SECOND, THIRD)]
    after = write(tmp_path / "b", monkeypatch, *parts, other(WEATHER, "30,900,99,45,9"))
    for a, b in zip(before.streams, after.streams, strict=True):
        # The events may differ, since an hour is kept only if the next one was measured.
        both = [t for t in a.times.tolist() if t in b.times.tolist()]
        i, j = ([s.times.tolist().index(t) for t in both] for s in (a, b))
        known = torch.tensor([h <= last for h in hours(a)])[i]
        for name in ("past", "now"):
            assert torch.equal(a.inputs[name][i][known], b.inputs[name][j][known])
        labelled = torch.tensor([h < last for h in hours(a)])[i]
        assert torch.equal(a.labels[i][labelled], b.labels[j][labelled])
        assert sum(h <= last for h in hours(b)) >= sum(h <= last for h in hours(a))


def test_a_station_without_coordinates_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nowhere_aq"):
        write(tmp_path, monkeypatch, [*FIRST, ("nowhere_aq", 0, "1,1,1,1,1,1")])


@real
def test_in_the_published_archive_persistence_scores_about_089() -> None:
    data = airquality.load()
    assert len(data.streams) == 35
    assert data.names is not None
    assert {"dongsi", "yanqin"} <= set(data.names)
    assert sum(len(s) for s in data.streams) == 376_580
    scores = []
    for stream in data.streams:
        whole = len(stream) // 50 * 50
        last, label = stream.inputs["past"][:whole, 0].reshape(-1, 50), stream.labels[:whole].reshape(-1, 50)
        scores.append(one_minus_smape(last, label).mean().item())
    assert sum(scores) / 35 == pytest.approx(0.890, abs=0.002)
