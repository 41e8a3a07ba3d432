"""Certificates of two fleets, some of which must be refused."""

import datetime as dt
from pathlib import Path

import pytest

from alphaedge.edge.trust.authority import CertificateFolder

from ..credentials import utc_now

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, now = tmp_path_factory.mktemp("certs"), utc_now()
    for fleet in ("ours", "theirs"):
        folder = CertificateFolder(path / fleet)
        folder.init("shops", now=now - 300 * DAY, days=1000)
        for edge in ("berlin", "paris"):
            folder.issue(edge, "EU", ["127.0.0.1"], now=now - DAY, days=90)
    CertificateFolder(path / "ours").issue("expired", "EU", ["127.0.0.1"], now=now - 200 * DAY, days=90)
    CertificateFolder(path / "ours").issue("elsewhere", "EU", ["10.9.9.9"], now=now, days=90)
    return path
