"""A replay to a live edge over HTTPS, with a certificate of the fleet's authority and a token."""

import datetime as dt
import json
import ssl
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.trust.authority import CertificateFolder
from tests.edge.processes import Edge
from tests.replay.edges import SMALL, TOKEN


class HttpsEdge(Edge):
    """An edge that is called over HTTPS, trusting the fleet's authority."""

    def get(self, path: str) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        with urllib.request.urlopen(self.url + path, timeout=10, context=context) as answer:
            return dict(json.load(answer))


@pytest.mark.long
def test_a_replay_works_over_https_with_a_token(tmp_path: Path) -> None:
    authority, now = CertificateFolder(tmp_path), dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=10)
    authority.issue("berlin", "DE", ["127.0.0.1"], now=now, days=5)
    (tmp_path / "token").write_text(TOKEN)
    printed = CliRunner().invoke(app, ["replay", "--print-config", *SMALL]).stdout
    serve = {"port": 0, "token": "token", "certificate": "berlin.pem", "key": "berlin.key"}
    edge = HttpsEdge(tmp_path, serve=serve, **tomllib.loads(printed))
    words = ["--token-file", str(tmp_path / "token"), "--authority", str(tmp_path / "ca.pem"), "--json", "-"]
    try:
        edge.start()
        found = CliRunner().invoke(app, ["replay", edge.url, *SMALL, *words])
        distrusted = CliRunner().invoke(app, ["replay", edge.url, *SMALL, *words[:2]])
    finally:
        edge.end()
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["total"]["events"] == result["total"]["feedback"]["accepted"] > 300
    assert distrusted.exit_code == 2
    assert "no trusted connection" in distrusted.stderr
