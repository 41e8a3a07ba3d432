"""One torch thread, one seed for each test, Hypothesis without a clock, and the slowest modules first."""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ.pop("COLUMNS", None)  # workers of xdist have one, and output is as wide as it says
os.unsetenv("COLUMNS")  # readline sets it behind Python's back
settings.register_profile("alphaedge", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("alphaedge")
# Tests of a minute each: one that starts last would keep a single worker busy when all others have nothing to do.
SLOWEST = ("test_demo.py", "test_live_docs.py", "test_parity.py", "test_reproduce.py", "test_documented.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in SLOWEST)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
