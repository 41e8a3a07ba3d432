"""An edge of one's own for a test, and what edges write to their logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .hostile import Lines
from .processes import Edge


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    made = Edge(tmp_path / "edge")
    yield made
    made.end()


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "log")
