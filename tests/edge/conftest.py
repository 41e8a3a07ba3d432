"""Fixtures: an edge, and the log of edges."""

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
