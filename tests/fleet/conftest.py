"""A simulated fleet of shops, and the live one made from it."""

from pathlib import Path

import polars as pl
import pytest

from alphaedge.fleet.from_results import init_fleet

from .shops import shop_frame
from .test_warm_start import NOW, simulated_fleet


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = shop_frame(1700).with_columns(
        price=pl.when(pl.int_range(pl.len()) % 9 > 0).then("price")  # some are missing
    )
    return simulated_fleet(tmp_path_factory.mktemp("shops"), frame)


@pytest.fixture(scope="module")
def fleet(results: Path) -> Path:
    init_fleet(results, results.parent / "fleet", now=NOW)
    return results.parent / "fleet"
