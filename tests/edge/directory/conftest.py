"""Certificates of a fleet, and a nats-server that knows its edges."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..directories import EDGES, issue_certificates
from ..nats_server import NatsServer, fleet_config


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issue_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def server(certs: Path, tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats", fleet_config(certs / "ours", EDGES, tmp_path / "store")) as running:
        yield running
