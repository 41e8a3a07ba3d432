"""The README's commands for live edges run as printed, except for the address."""

import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from .edge.processes import CONFIG, Edge
from .test_documented import LIVE, readme_commands

ADDRESS = "http://localhost:8080"
_WORDS = [shlex.split(command, comments=True)[1:] for command in readme_commands()]
PRINTED = {words[0]: words for words in _WORDS if words[0] in LIVE}


def alphaedge(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "alphaedge", *words], capture_output=True, text=True, cwd=folder)


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge with the model that ``replay --print-config`` prints."""
    folder = tmp_path_factory.mktemp("edge")
    printed = alphaedge("replay", "--data", "synthetic", "--print-config", folder=folder).stdout
    running = Edge(folder, model=None)
    running.path.write_text(running.path.read_text() + "\n" + printed)
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_the_readme_shows_every_live_command() -> None:
    assert set(PRINTED) == LIVE
    assert CONFIG["edge"] == "berlin"


def test_replay_streams_a_data_set(edge: Edge, tmp_path: Path) -> None:
    words = [edge.url if word == ADDRESS else word for word in PRINTED["replay"]]
    done = alphaedge(*words, "--events", "300", "--edges", "2", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "AUC" in done.stdout


def test_status_shows_the_fleet(edge: Edge, tmp_path: Path) -> None:
    done = alphaedge(*(edge.url if word == ADDRESS else word for word in PRINTED["status"]), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "berlin" in done.stdout


def test_dashboard_serves_the_page_until_it_is_interrupted(edge: Edge, tmp_path: Path) -> None:
    words = [edge.url if word == ADDRESS else word for word in PRINTED["dashboard"]]
    command = [sys.executable, "-m", "alphaedge", *words, "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    try:
        assert running.stdout is not None
        url = running.stdout.readline().split()[-1]
        assert url.endswith("/dashboard")
        page, home = url, url.removesuffix("/dashboard")
        assert b"<html" in urllib.request.urlopen(page, timeout=10).read().lower()
        assert b"berlin" in urllib.request.urlopen(f"{home}/fleet", timeout=10).read()
        with urllib.request.urlopen(f"{home}/fleet/stream", timeout=10) as stream:
            while not stream.readline().startswith(b"data: "):
                pass
            running.send_signal(signal.SIGINT)
            assert running.wait(10) in (0, 130, -signal.SIGINT)
    finally:
        running.kill()
        running.wait()
