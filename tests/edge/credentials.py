"""Credentials of edges in a test."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alphaedge.edge.trust.credentials import CertificateCredentials


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def load_credentials(
    folder: Path, edge: str, authority: Path | None = None, now: Callable[[], dt.datetime] = utc_now, **options: Any
) -> CertificateCredentials:
    """Load credentials from a folder of certificates. authority: another folder, whose ``ca.pem`` they trust."""
    return CertificateCredentials(
        folder / f"{edge}.pem", folder / f"{edge}.key", (authority or folder) / "ca.pem", now, **options
    )
