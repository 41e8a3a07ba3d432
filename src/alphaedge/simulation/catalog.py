"""The data sets that go by a name, each with its batch size and the base models that fit it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from alphaedge.core.model import Model
from alphaedge.data import airquality, completejourney, movielens, tafeng, worlds
from alphaedge.data.archive import Archive
from alphaedge.data.packages import birthdays, expedia, film_genres, flights, ml100k, online_retail, parking
from alphaedge.data.packages.package import Package
from alphaedge.data.stream import Dataset, Task
from alphaedge.errors import InvalidValue
from alphaedge.models.change import change
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.models.table_model import table_model
from alphaedge.settings import RowOptimizer


@final
@dataclass(frozen=True)
class Base:
    """A base model: how to make it for a data set, the rate of its Adam, and the rule of its id rows."""

    make: Callable[[Dataset], Model]
    rate: float
    rows: RowOptimizer = "lazy"


@final
@dataclass(frozen=True)
class Source:
    """A data set by its name. The first of ``models`` is the default.

    archive, package: where the data come from; a synthetic data set has neither.
    """

    what: str
    batch_size: int
    models: Mapping[str, Base]
    load: Callable[[], Dataset] | None = None
    archive: Archive | None = None
    package: Package | None = None


def _small_deepfm(data: Dataset) -> Model:
    return deepfm(data.fields)


def _deepfm(data: Dataset) -> Model:
    return deepfm(data.fields, hidden=(32,), spread=0.003, normalise=True)


def _mlp(data: Dataset) -> Model:
    return mlp(data.fields, loss="mse", label_scale=data.label_scale, normalise=True)


def _change(data: Dataset) -> Model:
    return change(data.fields, hours=airquality.HOURS)


def _table_model(data: Dataset) -> Model:
    if data.task == "classify":
        raise InvalidValue("model", "table", "deepfm, to classify")
    return table_model(data.fields, last=data.last, relative=data.relative)


def _table_deepfm(data: Dataset) -> Model:
    if data.task == "classify":
        return _deepfm(data)
    return deepfm(data.fields, hidden=(32,), spread=0.003, label_scale=data.label_scale, normalise=True, loss="mse")


# Rates were chosen on the first quarters (docs/decisions/0018); they grow with the square root of the batch size.
_CLICKS: Final = {"deepfm": Base(_deepfm, 0.01, "adagrad")}
_LARGE_BATCHES: Final = {"deepfm": Base(_deepfm, 0.03, "adagrad")}
_NUMBERS: Final = {"mlp": Base(_mlp, 0.01)}
_TABLES: Final = {  # to classify, and to regress (docs/decisions/0020)
    "deepfm": Base(_table_deepfm, 0.01, "adagrad"),
    "table": Base(_table_model, 0.001, "adagrad"),
}
_STORE: Final = {"deepfm": Base(_small_deepfm, 0.005)}


def _world(name: str) -> Source:
    return Source(f"a small store: {worlds.WORLDS[name].what}", 20, _STORE, partial(worlds.load, name))


def own_model(task: Task) -> str:
    """The base model, among those of the catalog's table, for a table and for data from Python alike.

    Both are built-in models of live edges, so that a fleet can be made of either.
    """
    return "table" if task == "regress" else "deepfm"


CATALOG: Final[Mapping[str, Source]] = {
    "synthetic": Source("a store in regions, made up", 50, _STORE),
    "movielens": Source("MovieLens-1M, 10 edges", 50, _CLICKS, movielens.load, movielens.ARCHIVE),
    "airquality": Source(
        "air in Beijing, 35 edges",
        50,
        {"mlp": Base(_mlp, 0.01), "change": Base(_change, 0.003)},
        airquality.load,
        airquality.ARCHIVE,
    ),
    "completejourney": Source(
        "promotions in 4 regions", 500, _LARGE_BATCHES, completejourney.load, completejourney.ARCHIVE
    ),
    "completejourney-stores": Source(
        "promotions in 112 stores",
        50,
        _CLICKS,
        partial(completejourney.load, by_store=True),
        completejourney.ARCHIVE,
    ),
    "tafeng": Source("a grocery store, 4 regions", 500, _LARGE_BATCHES, tafeng.load, tafeng.ARCHIVE),
    "tafeng-areas": Source(
        "a grocery store, 8 areas", 500, _LARGE_BATCHES, partial(tafeng.load, by_area=True), tafeng.ARCHIVE
    ),
    "flights": Source("late flights, 56 destinations", 50, _CLICKS, flights.load, package=flights.PACKAGE),
    "parking": Source("30 car parks", 10, _NUMBERS, parking.load, package=parking.PACKAGE),
    "ml-100k": Source("MovieLens-100k, 21 occupations", 20, _CLICKS, ml100k.load, package=ml100k.PACKAGE),
    "online-retail": Source(
        "cancelled orders, 16 countries", 50, _CLICKS, online_retail.load, package=online_retail.PACKAGE
    ),
    "expedia": Source("hotel bookings, 13 sites", 20, _CLICKS, expedia.load, package=expedia.PACKAGE),
    "birthdays": Source("births in 51 states", 50, _NUMBERS, birthdays.load, package=birthdays.PACKAGE),
    "film-genres": Source("MovieLens, 11 genres", 20, _CLICKS, film_genres.load, package=film_genres.PACKAGE),
    **{name: _world(name) for name in worlds.WORLDS},
    "table": Source("a table of your own", 50, _TABLES),
}
