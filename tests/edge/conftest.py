"""An edge of one's own for a test, and what edges write to their logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .hostile import EdgeLog
from .processes import Edge


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    made = Edge(tmp_path / "edge")
    yield made
    made.end()


@pytest.fixture
def edge_log(tmp_path: Path) -> EdgeLog:
    return EdgeLog(tmp_path / "log")
