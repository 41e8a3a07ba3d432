"""One torch thread, one seed for each test, and Hypothesis without a clock."""

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("alphaedge", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("alphaedge")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
