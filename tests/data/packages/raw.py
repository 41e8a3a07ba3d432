"""Made-up content of each package, in the published format. Labels after a moment can be turned round.

Each function takes the moment, as a share of the time, after which the labels differ, and returns the members.
"""

import io
import lzma
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import ModuleType

import numpy as np

from alphaedge.data.packages import birthdays, expedia, film_genres, flights, ml100k, online_retail, parking

from .pickles import pickled_frame

Members = dict[str, bytes]
START = datetime(2013, 1, 1)


def _csv(header: str, rows: list[str]) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def flight_members(turn: float = 1.0) -> Members:
    """2,400 flights in 50 days to two destinations, and 10 to a third; some cancelled, some without a tail number."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(2_410):
        at = START + timedelta(minutes=30 * n)
        late = int(rng.integers(-20, 60))
        if n / 2_410 > turn:
            late = 40 - late
        arrived = "NA" if n % 100 == 7 else str(late)
        dest = "ZZZ" if n >= 2_400 else ("ATL", "BOS")[n % 2]
        tail = "NA" if n % 51 == 3 else f"N{n % 37}"
        hour = at.replace(minute=0) + timedelta(hours=5)
        rows.append(
            f"{at.year},{at.month},{at.day},{at.hour},{late},{arrived},{'AA' if n % 3 else 'UA'},{tail},"
            f"{('EWR', 'JFK', 'LGA')[n % 3]},{dest},{100 + n % 5},{at.hour},{at.minute},{hour:%Y-%m-%dT%H:%M:%SZ}"
        )
    header = (
        "year,month,day,sched_dep_time,dep_delay,arr_delay,carrier,tailnum,origin,dest,distance,hour,minute,time_hour"
    )
    weather = []
    for h in range(24 * 51):
        at = START + timedelta(hours=h + 5)
        if 200 <= h < 220:
            continue  # no reports
        report = f"{h},30.0,50.0,5.0,0.0,{'NA' if h % 9 == 0 else 1010.0},10.0,{at:%Y-%m-%dT%H:%M:%SZ}"
        weather += [f"{origin},{report}" for origin in ("EWR", "JFK", "LGA")]
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("flights.csv", _csv(header, rows))
    reports = _csv("origin,temp,dewp,humid,wind_speed,precip,pressure,visib,time_hour", weather)
    return {"data/flights.csv.zip": zipped.getvalue(), "data/weather.csv": reports}


def parking_members(turn: float = 1.0) -> Members:
    """Two car parks, 200 readings each, one of them twice, one below 0."""
    rows = []
    for park, places in (("P2", 100), ("P1", 400)):
        for n in range(200):
            at = START + timedelta(days=n // 17, hours=8, minutes=30 * (n % 17))
            taken = (n * 7) % places if n / 200 <= turn else (n * 11) % places
            rows.append(f"{park},{places},{-3 if n == 5 else taken},{at:%Y-%m-%d %H:%M:%S}")
    return {"hourly/hourly_parking.csv": _csv("SystemCodeNumber,Capacity,Occupancy,LastUpdated", [*rows, rows[3]])}


def ml100k_members(turn: float = 1.0) -> Members:
    """300 ratings by users of three occupations."""
    rng = np.random.default_rng(0)
    users = [f"{u}\t{20 + u}\t{'FM'[u % 2]}\t{('artist', 'none', 'writer')[u % 3]}\t12345" for u in range(1, 10)]
    genres = ("Action Drama", "Comedy", "Film-Noir")
    films = [f'{i}\tThe "{i}\t{"" if i == 4 else 1950 + 9 * i}\t{genres[i % 3]}' for i in range(1, 8)]
    ratings = []
    for t in rng.permutation(300).tolist():
        rating = 1 + t % 5 if t / 300 <= turn else 5 - t % 5
        ratings.append(f"{1 + t % 9}\t{1 + t % 7}\t{rating}\t{880_000_000 + t}")
    tables = {
        "user": ("user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token", users),
        "item": ("item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq", films),
        "inter": ("user_id:token\titem_id:token\trating:float\ttimestamp:float", ratings),
    }
    return {f"ml-100k/ml-100k.{kind}": _csv(*table) for kind, table in tables.items()}


def retail_members(turn: float = 1.0) -> Members:
    """1,100 lines each of France and Italy, 12,000 of the United Kingdom, 20 of Malta; write-offs have no price."""
    counts = {"France": 1_100, "Italy": 1_100, "United Kingdom": 12_000, "Malta": 20}
    rows = []
    for country, count in counts.items():
        for n in range(count):
            at = START + timedelta(minutes=int(n * 10_000 / count))
            cancelled = (n % 4 == 0) != (n / count > turn)
            customer = "" if n % 6 == 0 else f"{12_000 + n % 40}.0"
            number = f"{'C' if cancelled else ''}{500_000 + n // 4}"
            pieces = -(1 + n % 9) if cancelled else 1 + n % 9
            price = 0 if n % 50 == 1 else 1.5 + n % 3
            day = f"{at.month}/{at.day}/{at.year} {at.hour}:{at.minute:02}"
            rows.append(f'{number},{n % 30}P,"GIFT, SMALL",{pieces},{day},{price},{customer},{country}')
    rows.append("A506401,B,Adjust bad debt,1,4/29/2010 13:36,-53594.36,,United Kingdom")
    header = "Invoice,StockCode,Description,Quantity,InvoiceDate,Price,Customer ID,Country"
    return {"minute/online_retail.csv.xz": lzma.compress(_csv(header, rows))}


def expedia_members(turn: float = 1.0) -> Members:
    """600 events on each of two sites, 10 on a third; some without dates or distance, one with an absurd date."""
    rows = []
    for n in range(1_210):
        at = START + timedelta(hours=n)
        booked = int((n % 7 == 0) != (n / 1_210 > turn))
        site = 48 if n >= 1_200 else (2, 11)[n % 2]
        start, end = at + timedelta(days=n % 21), at + timedelta(days=n % 21 + 3)
        dates = "," if n % 40 == 1 else f"{start:%Y-%m-%d},{end:%Y-%m-%d}"
        dates = "2557-99-01,2014-01-01" if n == 100 else dates
        distance = "" if n % 3 else f"{n}.5"
        rows.append(
            f"{at:%Y-%m-%d %H:%M:%S},{site},{distance},{n},{n % 2},0,{n % 5},{dates},2,0,1,{n % 25},{1 + n % 3},"
            f"{booked},{1 + 5 * booked},{n % 4},{booked}"
        )
    header = (
        "date_time,site_name,orig_destination_distance,user_id,is_mobile,is_package,channel,srch_ci,srch_co,"
        "srch_adults_cnt,srch_children_cnt,srch_rm_cnt,srch_destination_id,srch_destination_type_id,is_booking,cnt,"
        "hotel_continent,hotel_cluster"
    )
    return {"datasets/expedia.csv": _csv(header, rows)}


def birthday_members(turn: float = 1.0) -> Members:
    """Two states, 100 days each, and a day that does not exist."""
    columns: dict[str, list[object]] = {"state": [], "day": [], "date": [], "births": []}
    for n in range(100):
        at = START + timedelta(days=n)
        for state, scale in (("WY", 10), ("CA", 1_000)):
            births = scale + n * 7 % 50 if n / 100 <= turn else scale + n * 3 % 50
            for name, value in (
                ("state", state),
                ("day", at.day),
                ("date", f"{at:%Y-%m-%d}T00:00:00Z"),
                ("births", births),
            ):
                columns[name].append(value)
    for name, value in (("state", "CA"), ("day", 30), ("date", "2013-03-02T00:00:00Z"), ("births", 2)):
        columns[name].append(value)
    return {"mosaicData/Birthdays.pkl.compress": lzma.compress(pickled_frame(columns))}


def genre_members(turn: float = 1.0) -> Members:
    """600 ratings of each of two first genres, 10 of a third; a film without a year."""
    count = 1_210
    n = np.arange(count)
    film = np.where(n >= 1_200, 9, n % 8)
    genres = np.where(film == 9, "War", np.where(film % 2, "Drama|War", "Comedy"))
    rating = np.where(n / count <= turn, 1 + n % 5, 5 - n % 5).astype(float)
    columns = {
        "movieId": film.tolist(),
        "year": np.where(film == 3, np.nan, 1990.0).tolist(),
        "genres": genres.tolist(),
        "userId": (1 + n % 13).tolist(),
        "rating": rating.tolist(),
        "timestamp": (1_000_000_000 + n * 86_400).tolist(),
    }
    return {"dslabs/movielens.pkl.compress": lzma.compress(pickled_frame(columns))}


MADE_UP: Mapping[str, tuple[ModuleType, Callable[[float], Members]]] = {
    "flights": (flights, flight_members),
    "parking": (parking, parking_members),
    "ml-100k": (ml100k, ml100k_members),
    "online-retail": (online_retail, retail_members),
    "expedia": (expedia, expedia_members),
    "birthdays": (birthdays, birthday_members),
    "film-genres": (film_genres, genre_members),
}
