"""A demonstration with live edges: it ends by itself or when stopped, and leaves a report and nothing else."""

import html
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.demo.fleet import DemoFleet
from alphaedge.demo.reaction_text import reaction_sentences
from alphaedge.demo.reactions import Reaction
from alphaedge.demo.summary import DemoSummary
from alphaedge.demo.verdict import verdict
from alphaedge.errors import FleetError

from ..edge.processes import wait_for

EDGES = 4


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "alphaedge", "demo", "--edges", str(EDGES), "--minutes", "0.5", *words]


def left_over(folder: Path) -> list[str]:
    """Return the processes whose command line names a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def scratch(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Make a folder for temporary files, and return it with an environment that uses it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder, {**os.environ, "TMPDIR": str(folder)}


@pytest.mark.timeout(900)  # nothing below depends on the speed of the machine, but the time that it takes does
def test_a_demonstration_ends_by_itself_with_a_summary_and_a_report(tmp_path: Path) -> None:
    folder, environment = scratch(tmp_path)
    out = tmp_path / "out"
    done = subprocess.run(
        command("--json", "--out", str(out)), capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [e["edge"] for e in found["edges"]] == ["berlin", "madrid", "oslo", "tokyo"]
    assert found["failures"] == found["undelivered"] == 0, "clients wait for an edge that is down"
    assert all(0 < e["score"] < 1 and 0 < e["alone"] < 1 for e in found["edges"])
    assert all(abs(e["score"] - e["alone"] - e["gain"]) < 2e-4 for e in found["edges"])
    assert sum(e["hostile"] for e in found["edges"]) == 1
    for words in ("turns hostile", "is killed", "is started again", "cuts the link"):
        assert words in done.stderr
    assert len(done.stderr.splitlines()) < 60, "a story, not a list of all changes of peers"
    assert "now learns from" not in done.stderr
    assert json.loads((out / "summary.json").read_text()) == found
    page = (out / "report.html").read_text()
    assert "turns hostile" in page
    for sentence in verdict(msgspec.convert(found, DemoSummary)):
        assert html.escape(sentence) in page, "what it showed, on top"
    (hostile,) = [e["edge"] for e in found["edges"] if e["hostile"]]
    assert {r["hostile"] for r in found["reactions"]} <= {hostile}
    for sentence in reaction_sentences(hostile, msgspec.convert(found["reactions"], tuple[Reaction, ...])):
        assert html.escape(sentence) in page
    assert page.count("data:image/png") >= 4
    assert not list(folder.iterdir())
    assert not left_over(folder)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_demonstration_that_is_stopped_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    folder, environment = scratch(tmp_path)
    running = subprocess.Popen(
        command("--minutes", "5", "--out", str(tmp_path / "out")),
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    try:
        assert running.stdout is not None
        while "batches learned" not in (line := running.stdout.readline()):
            assert line, "it has ended"
        assert len(left_over(folder)) >= 2 * EDGES
        running.send_signal(number)
        running.wait(60)
    finally:
        running.kill()
        running.wait()
    wait_for(lambda: not left_over(folder), "all processes to end")
    if number != signal.SIGKILL:
        assert running.returncode == 130
        assert not list(folder.iterdir())


def test_logs_of_a_fleet_that_fails_are_kept(tmp_path: Path) -> None:
    broken = {"name": "shop", "builtin": "nothing", "fields": [{"name": "user", "kind": "id", "size": 5}]}
    with DemoFleet(tmp_path / "fleet", {"berlin": "DE"}, model=broken, method={}) as fleet:
        fleet.start()
        wait_for(lambda: not fleet.is_running("berlin"), "it to end")
        with pytest.raises(FleetError, match="berlin has ended"):
            fleet.check_running(["berlin"])
        kept = fleet.save_logs(tmp_path / "logs")
    assert "builtin" in (kept / "berlin.txt").read_text()


def test_invalid_options_are_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["--edges", "1"], "edges: found 1"),
        (["--minutes", "0"], "minutes: found 0"),
        (["--data", "nothing"], "data: found 'nothing'"),
    ):
        done = CliRunner().invoke(app, ["demo", *words])
        assert done.exit_code == 2
        assert said in done.stderr
    assert not list(tmp_path.iterdir())
