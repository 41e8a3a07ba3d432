"""Help, completion and the commands that configure or look start without torch and polars."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from alphaedge.cli import app
from alphaedge.monitoring.frames import Fleet

ALWAYS_HEAVY = ("torch", "polars", "numpy", "matplotlib")
HEAVY = (*ALWAYS_HEAVY, "cryptography", "aiohttp", "starlette", "msgspec", "pydantic")
# Runs the command line with its arguments, then prints the modules that it imported as the last line.
REPORT_MODULES = """
import json, sys
from alphaedge.cli import app
try:
    app(prog_name="alphaedge")
finally:
    print()
    print(json.dumps(sorted(sys.modules)))
"""


def run(*args: str, folder: Path, **environment: str) -> tuple[int, str, set[str]]:
    """Run a command in a fresh interpreter; returns its exit code, output and imported modules."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT_MODULES, *args],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "COLUMNS": "120", "HOME": str(folder), **environment},
    )
    output, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert modules, done.stderr
    return done.returncode, output + done.stderr, set(json.loads(modules))


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """List the words of every group and command."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


COMMANDS = list(walk(typer.main.get_command(app)))


def test_there_are_commands_to_look_at() -> None:
    assert {("simulate",), ("status",), ("edge", "init"), ("certs", "show")} <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "alphaedge")
def test_help_imports_nothing_heavy_and_shows_no_bool(words: tuple[str, ...], tmp_path: Path) -> None:
    code, output, modules = run(*words, "--help", folder=tmp_path)
    assert (code, modules & set(HEAVY)) == (0, set()), output
    assert "Usage: " + " ".join(["alphaedge", *words]) in output
    assert "bool" not in output.lower()


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    source = "import alphaedge, sys; dir(alphaedge), alphaedge.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert not {*HEAVY, "typer", "rich"} & set(done.stdout.split())


def test_an_error_of_the_package_is_there_without_torch(tmp_path: Path) -> None:
    source = "import alphaedge, sys; alphaedge.InvalidValue; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def test_completion_imports_nothing_heavy(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "alphaedge st", "COMP_CWORD": "1", "_ALPHAEDGE_COMPLETE": "complete_bash"}
    _, output, modules = run(folder=tmp_path, **words)
    assert output.split() == ["status"]
    assert not modules & set(HEAVY)


def test_completion_of_a_commands_options_imports_nothing_heavy(tmp_path: Path) -> None:
    words = {
        "COMP_WORDS": "alphaedge simulate --met",
        "COMP_CWORD": "2",
        "_ALPHAEDGE_COMPLETE": "complete_bash",
    }
    _, output, modules = run(folder=tmp_path, **words)
    assert output.split() == ["--methods"]
    assert not modules & set(ALWAYS_HEAVY)


def test_edge_init_imports_nothing_heavy(tmp_path: Path) -> None:
    code, output, modules = run("edge", "init", "edge.toml", "--edge", "berlin", "--region", "DE", folder=tmp_path)
    assert code == 0, output
    assert 'edge = "berlin"' in (tmp_path / "edge.toml").read_text()
    assert not modules & set(HEAVY) - {"pydantic"}


def test_certs_import_cryptography_and_nothing_heavier(tmp_path: Path) -> None:
    named = ["--edge", "berlin"]
    for words in (
        ["init", "certs"],
        ["issue", "certs", *named, "--region", "DE", "--host", "localhost"],
        ["renew", "certs", *named],
        ["show", "certs"],
        ["show", "certs", "--json"],
        ["nats", "certs"],
    ):
        code, output, modules = run("certs", *words, folder=tmp_path)
        assert code == 0, output
        assert not modules & {*ALWAYS_HEAVY, "aiohttp", "starlette"}, words


@pytest.fixture
def edge_url() -> Iterator[str]:
    """The address of an edge that knows of no fleet yet."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = msgspec.json.encode(Fleet(edge="berlin", now=0.0, frames=[]))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_status_imports_nothing_heavy(options: list[str], edge_url: str, tmp_path: Path) -> None:
    code, output, modules = run("status", edge_url, *options, folder=tmp_path)
    assert (code, "berlin" in output) == (1, True), output  # a fleet without edges is not healthy
    assert not modules & set(HEAVY) - {"msgspec", "pydantic"}
