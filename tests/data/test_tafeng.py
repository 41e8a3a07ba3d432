"""Ta-Feng: purchases are positives, and negatives are drawn from what the store sold in four weeks."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

from alphaedge import Dataset
from alphaedge.data import tafeng

from .archives import pack, real, same

START = date(2000, 11, 1)
HEADER = "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,SALES_PRICE"
AREAS = ["105", "106", "110", "114", "115", "221", "Others", "Unknown"]

Line = tuple[int, int, int, int, float]  # day, customer, product, amount, sales price


def area(customer: int) -> str:
    return AREAS[customer % 8]


def receipts(seed: int = 0, days: int = 50) -> list[Line]:
    """Make receipts: all products are sold on day 0, later each only in its own weeks, so the assortment changes."""
    rng = np.random.default_rng(seed)
    lines: list[Line] = [(0, p % 8, p, 1, 10.0) for p in range(30)]
    for day in range(1, days):
        on_sale = [p for p in range(30) if (p + day // 5) % 4 == 0 and (p < 25 or day > 40)]
        for customer in range(8):
            lines += [
                (day, customer, product, int(rng.integers(1, 4)), float(rng.integers(10, 90)))
                for product in rng.choice(on_sale, size=2, replace=False).tolist()
            ]
    return lines


def write(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lines: Sequence[Line], *, by_area: bool = False, seed: int = 0
) -> Dataset:
    """Write the published format: byte-order mark, everything quoted, month/day/year without zeros, CRLF, no ages."""
    text = [",".join(f'"{name}"' for name in HEADER.split(","))]
    for day, customer, product, amount, price in lines:
        when = START + timedelta(days=day)
        age = "" if customer == 3 else f"{25 + 5 * (customer % 3)}-{29 + 5 * (customer % 3)}"
        values = [
            f"{when.month}/{when.day}/{when.year}", f"{customer:08}", age, area(customer), f"{110000 + product // 5}",
            f"{4710000000000 + product}", amount, 24, f"{price:g}",
        ]  # fmt: skip
        text.append(",".join(f'"{v}"' if v != "" else "" for v in values))
    content = b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in text).encode()
    pack(folder, "tafeng", {"tafeng/ta_feng_all_months_merged.csv": content})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(folder))
    return tafeng.load(by_area=by_area, seed=seed)


Event = tuple[int, int, int, int, float]  # day, customer, product, label, logarithm of the price


def events(data: Dataset) -> list[Event]:
    first = (START - date(1970, 1, 1)).days
    listed = []
    for s in data.streams:
        days = [math.floor(t) - first for t in s.times.tolist()]
        keys = (s.inputs["customer"].tolist(), s.inputs["product"].tolist(), s.labels.int().tolist())
        listed += list(zip(days, *keys, [round(p, 4) for p in s.inputs["price"][:, 0].tolist()], strict=True))
    return listed


def test_every_purchase_is_a_positive_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = receipts()
    twice = [lines[40], lines[60]]
    data = write(tmp_path, monkeypatch, [*lines, *twice])
    positives = [(d, c, p) for d, c, p, label, _ in events(data) if label]
    assert Counter(positives) == Counter({(d, c, p) for d, c, p, _, _ in lines})


def test_a_negative_is_in_the_assortment_and_was_not_bought_that_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = receipts()
    bought = {(d, c, p) for d, c, p, _, _ in lines}
    sold = {(d, p) for d, _, p in bought}
    negatives = [(d, c, p) for d, c, p, label, _ in events(write(tmp_path, monkeypatch, lines)) if not label]
    assert len(negatives) > 300
    for day, customer, product in negatives:
        assert (day, customer, product) not in bought
        assert any((d, product) in sold for d in range(day - 27, day + 1))
    drawn, purchases = Counter((d, c) for d, c, _ in negatives), Counter((d, c) for d, c, _ in bought)
    assert all(drawn[key] <= purchases[key] for key in drawn), "one draw for each purchase"
    # Draws of products that the customer bought are dropped: 2 of about 20 in the assortment.
    assert len(negatives) > 0.85 * len(bought)
    # Products 25 to 29 are not in the assortment from day 28 until they return.
    assert not {p for d, _, p in negatives if 28 <= d <= 40} & set(range(25, 30))
    assert {p for d, _, p in negatives if d < 28} & set(range(25, 30))


def test_the_assortment_goes_back_28_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Line] = [(0, 0, 0, 1, 1.0)]
    lines += [(day, c, 1 + c % 2, 1, 1.0) for day in (27, 28) for c in range(300)]
    negatives = [(d, p) for d, _, p, label, _ in events(write(tmp_path, monkeypatch, lines)) if not label]
    assert (27, 0) in negatives
    assert (28, 0) not in negatives
    assert {p for d, p in negatives if d == 28} == {1, 2}


def test_a_price_is_the_mean_of_the_last_earlier_day_when_the_product_was_sold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[Line] = [
        (0, 0, 0, 2, 30.0), (0, 1, 0, 1, 25.0),  # 15 and 25
        (1, 2, 1, 0, 8.0),  # amount 0 counts as one
        (2, 0, 1, 4, 8.0),
        *((3, c, 2, 1, 1.0) for c in range(100)),
        (4, 0, 0, 1, 99.0),
    ]  # fmt: skip
    priced = {(d, p, label, price) for d, _, p, label, price in events(write(tmp_path, monkeypatch, lines))}

    def prices(day: int, product: int) -> set[float]:
        return {price for d, p, _, price in priced if (d, p) == (day, product)}

    assert prices(0, 0) == {0.0}, "not known yet"
    assert prices(1, 1) == {0.0}
    assert prices(2, 1) == {round(math.log1p(8), 4)}
    assert prices(3, 0) == {round(math.log1p(20), 4)}, "a negative has the price of day 0, not of day 4"
    assert prices(3, 1) == {round(math.log1p(2), 4)}
    assert prices(4, 0) == {round(math.log1p(20), 4)}


@pytest.mark.parametrize("last", [5, 27, 35, 44])
def test_later_receipts_change_nothing_before_them(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = receipts()
    later: list[Line] = [(d, c, (p + 7) % 30, a, v * 3) for d, c, p, a, v in lines if d > last]
    later += [(last + 1, c, 999, 1, 5.0) for c in range(8)]  # a new product
    before = write(tmp_path / "a", monkeypatch, lines)
    after = write(tmp_path / "b", monkeypatch, [*(line for line in lines if line[0] <= last), *sorted(later)])
    early = Counter(e for e in events(before) if e[0] <= last)
    assert early == Counter(e for e in events(after) if e[0] <= last)
    assert Counter(events(before)) != Counter(events(after))


def test_customers_live_in_four_regions_or_eight_areas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    four = write(tmp_path, monkeypatch, receipts())
    assert (four.name, len(four.streams)) == ("tafeng", 4)
    living = [{area(c) for c in s.inputs["customer"].tolist()} for s in four.streams]
    assert living == [{"115"}, {"221"}, {"105", "106", "110"}, {"114", "Others", "Unknown"}]
    eight = tafeng.load(by_area=True)
    assert (eight.name, len(eight.streams)) == ("tafeng-areas", 8)
    assert [{area(c) for c in s.inputs["customer"].tolist()} for s in eight.streams] == [{a} for a in AREAS]
    assert [set(s.inputs["area"].tolist()) for s in eight.streams] == [{a} for a in range(8)]


def test_a_missing_age_group_has_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch, receipts())
    ages = {}
    for s in data.streams:
        ages |= dict(zip(s.inputs["customer"].tolist(), s.inputs["age"].tolist(), strict=True))
    assert ages == {c: 0 if c == 3 else 1 + c % 3 for c in range(8)}


def test_a_product_keeps_its_subclass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for s in write(tmp_path, monkeypatch, receipts()).streams:
        assert torch.equal(s.inputs["subclass"], s.inputs["product"] // 5)


def test_a_days_events_are_shuffled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch, [(0, c, p, 1, 1.0) for c in range(8) for p in range(c % 2, 30, 2)])
    for s in data.streams:
        labels = s.labels.tolist()
        assert labels not in (sorted(labels), sorted(labels, reverse=True))


def test_equal_seeds_draw_equal_negatives_and_other_seeds_draw_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write(tmp_path, monkeypatch, receipts(), seed=1)
    assert same(one, tafeng.load(seed=1))
    other = tafeng.load(seed=2)
    assert Counter(e for e in events(one) if e[3]) == Counter(e for e in events(other) if e[3])
    assert Counter(e for e in events(one) if not e[3]) != Counter(e for e in events(other) if not e[3])


@real
def test_the_published_archive_has_four_regions_and_a_negative_for_nearly_every_purchase() -> None:
    data = tafeng.load()
    assert len(data.streams) == 4
    labels = torch.cat([s.labels for s in data.streams])
    assert int(labels.sum()) == 817_741
    assert 0.995 < int((labels == 0).sum()) / 817_741 <= 1
    assert [f.size for f in data.fields] == [32_266, 23_812, 1_998, 11, 8, 2]
