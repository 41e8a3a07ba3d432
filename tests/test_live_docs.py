"""What the pages of the documentation print works as it is printed: commands, files and programs, top to bottom.

A page is one shell in one folder, as a reader would have it. A block with a title is a file of that name; a block of
``sh`` is run; a block of ``python`` is run by Python. What is not run is in ``NOT_RUN``, with the reason.
"""

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.reference.pages import DOCS, strip_generated

from .edge.nats_server import free_port
from .fleet.ports import free_ports

ROOT = DOCS.parent
FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
MOST_EDGES = 8  # of a fleet that a page makes
PORTS = re.compile(r"\b(80[0-9]{2}|84[0-9]{2}|4222)\b")

# Blocks of ``sh`` that tests do not run, by the page and how the block begins, and why.
NOT_RUN: Mapping[tuple[str, str], str] = {
    ("tutorial.md", "pip install"): "downloads; the environment of the tests is what it makes",
    ("how-to/systemd.md", "python3.11 -m venv /opt"): "writes to /opt and /etc, and needs a running systemd",
    ("how-to/systemd.md", "chown -R root"): "needs a running systemd; systemd-analyze, below it, is run",
    ("how-to/containers.md", "docker build"): "needs a container engine; tests/test_deploy.py has what can be tried",
    ("how-to/containers.md", "docker compose"): "needs a container engine; tests/test_deploy.py has what can be tried",
    ("how-to/devices.md", "alphaedge simulate --device cuda"): "needs a GPU",
    ("results/README.md", "alphaedge reproduce table1"): "two hours; the README's test runs it in a short form",
    ("results/peers.md", "python -m benchmarks.peers"): "installs five frameworks; test_documented.py runs it in short",
}
# Programs that a page needs and a machine may lack. Without them the page is skipped; in CI it fails.
NEEDS = {"how-to/nats.md": "nats-server", "how-to/monitoring.md": "promtool", "how-to/systemd.md": "systemd-analyze"}
# Blocks with this are run only where ``ALPHAEDGE_DATA`` has the archives: else they would download them.
ARCHIVES = "--data movielens"
# What a page must have printed, besides having ended well.
SAYS: Mapping[str, tuple[str, ...]] = {
    "tutorial.md": (
        '"accepted":2',
        r"berlin: \d+ of the first 100 were right, (?:[89]\d|100) of the last 100",
        r"boston: (?:[89]\d|100) of the first 100 were right",
        r"(?s)fleet seen by berlin.* berlin +DE .* boston +US .*(?:berlin [01]\.\d\d|nobody)",
        r"alphaedge_batches_total 60.0",
    ),
    "table-to-fleet.md": (
        r"Learning from each other pays: \+0\.0\d",
        "oslo.*oslo",
        '"prediction"',
        r"labels: 1,200 accepted",
        "stopped 8 edges",
    ),
    "live-edge.md": ('"accepted":2', "alphaedge_pending_predictions 0.0", "fleet seen by berlin"),
    "how-to/embed.md": ("accepted=2",),
    "how-to/own-module.md": ("ready to start", r"alphaedge 0\.[5-9]"),
    "rivals.md": (r"multi-krum +0\.[4-9]", r"bolder 0\.[4-9]"),
    "how-to/own-rule.md": ("memory is missing", r"median 0\.[5-9]", "ready to start"),
    "how-to/own-table.md": ("[Ll]earning from each other", r"Bergen -> http"),
    "how-to/export.md": (r"\[0\.\d+", '"edge": "Bergen"', "model.onnx", "alphaedge fleet up fleet"),
    "how-to/replay.md": ("replay.png", "summary.json"),
    "how-to/certificates.md": (
        "certificate: boston in US",
        "renewed; copy",
        "revoked boston",
        "revoked berlin",
        "the newest secret in it is",
        "boston is now banned",
    ),
    "how-to/region-policy.md": ("policy: 4 rules", r"deny from=DE to=\*\nNone"),
    "how-to/nats.md": ("alphaedge_peer_alive",),
    "how-to/monitoring.md": ("fleet seen by berlin", '"healthy":true'),
    "how-to/operate.md": ('"accepted":1',),
    "how-to/upgrade.md": ("'accepted': 10", r"(?s)alphaedge_batches_total 2.0.*alphaedge_aggregations_total 1.0"),
    "how-to/tuning.md": ("[Ll]earning from each other", r"On the rest|The defaults stay"),
    "how-to/large-fleets.md": (r"\n0\.[5-9]\d+\n",),
    "how-to/audit.md": (
        "This fits the promise of epsilon 8",
        r"(?s)This fits the promise of epsilon 4.*This fits the promise of epsilon 4.*Publication \d+ of bergen",
    ),
    "how-to/long-runs.md": ("[Ll]earning from each other",),
    "how-to/ray.md": ("sweep.png", r"\n0\.[5-9]"),
}
QUICK = {"tutorial.md", "table-to-fleet.md", "live-edge.md", "how-to/own-rule.md"}


class Block(NamedTuple):
    """A block of code in a page."""

    language: str
    title: str
    text: str

    @property
    def runs(self) -> bool:
        """Whether a reader would run it, and not write or look at it."""
        return not self.title and self.language in ("sh", "python")


def pages() -> list[str]:
    """All pages that were written, by their path under docs/."""
    return sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))


def hand_written(page: str) -> str:
    """The text of a page without its generated sections."""
    return strip_generated((DOCS / page).read_text(encoding="utf-8"))


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order."""
    return [
        Block(language or "", (re.search(r'title="([^"]+)"', options) or ("", ""))[1], body)
        for language, options, body in FENCE.findall(hand_written(page))
    ]


def reason(page: str, block: Block) -> str:
    """Why a block is not run; nothing if it is."""
    return next((why for (where, start), why in NOT_RUN.items() if where == page and block.text.startswith(start)), "")


def running() -> list[str]:
    """Pages that have something to run."""
    return [page for page in pages() if any(b.runs and not reason(page, b) for b in blocks(page))]


def script(page: str, folder: Path) -> str:
    """A page as a shell script. Ports are others than those that are printed, so that tests can run side by side."""
    parts = ["set -eo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for block in blocks(page):
        if block.title:
            path = shlex.quote(block.title)
            parts.append(f"mkdir -p $(dirname {path}) && cat > {path} <<'END OF FILE'\n{block.text}END OF FILE")
        elif block.language == "python":
            parts.append(f"python - <<'END OF FILE'\n{block.text}END OF FILE")
        elif block.language == "sh" and not reason(page, block):
            here = ARCHIVES not in block.text or os.environ.get("ALPHAEDGE_DATA")
            parts.append(block.text if here else "")
    text = "\n".join(parts)
    ports = {port: str(free_port()) for port in {*PORTS.findall(text), "8080", "8443"}}
    if "alphaedge fleet init" in text:  # its edges have consecutive ports
        first = free_ports(2 * MOST_EDGES)
        ports |= {"8080": str(first), "8443": str(first + MOST_EDGES)}
    _shim(folder, ports)
    return PORTS.sub(lambda found: ports[found[0]], text)


def _shim(folder: Path, ports: Mapping[str, str]) -> None:
    """The program, but a file that it writes for a new edge has the ports of this test."""
    real = shlex.quote(str(Path(sys.executable).with_name("alphaedge")))
    other = " ".join(f"-e s/{old}/{new}/" for old, new in ports.items())
    shim = folder / "bin" / "alphaedge"
    shim.parent.mkdir(parents=True)
    made = f'{real} "$@" && sed -i {other} "$3"'
    fleet = f'{real} "$@" --port {ports["8080"]} --peer-port {ports["8443"]}'
    shim.write_text(
        f'#!/bin/bash\nif [ "$1 $2" = "edge init" ]; then {made}; elif [ "$1 $2" = "fleet init" ]; then {fleet}; '
        f'else exec {real} "$@"; fi\n'
    )
    shim.chmod(0o755)


@contextlib.contextmanager
def one_at_a_time(shared: Path) -> Iterator[None]:
    """Pages start edges, and a small machine does not bear many: workers of a test run take turns."""
    with (shared / "a page runs").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(page: str, tmp_path: Path) -> str:
    """Run a page; what it has printed."""
    folder = tmp_path / "reader"
    folder.mkdir()
    for name in ("deploy", "docs", "examples", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    path = [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"]
    environment = os.environ | {"PATH": os.pathsep.join(path)}
    found = subprocess.run(
        ["bash", "-c", script(page, tmp_path)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.parametrize("page", [pytest.param(p, marks=[] if p in QUICK else [pytest.mark.long]) for p in running()])
@pytest.mark.timeout(900)
def test_a_page_runs_top_to_bottom(page: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All of it in one shell, as a reader would."""
    program = NEEDS.get(page)
    if program and not (shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/bin")):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")
    with one_at_a_time(tmp_path_factory.getbasetemp().parent):
        said = run(page, tmp_path)
    for expected in SAYS.get(page, ()):
        assert re.search(expected, said), f"{page} has not said {expected}: {said}"


def test_every_block_that_is_not_run_is_there_and_has_a_reason() -> None:
    for (page, start), why in NOT_RUN.items():
        found = [b for b in blocks(page) if b.language == "sh" and b.text.startswith(start)]
        assert found, f"{page} has no block any more that begins with {start}"
        assert why


def test_nothing_that_runs_can_fail_unseen() -> None:
    """A shell that stops at what fails goes on after the first half of ``one && two``, and after ``one || two``."""
    for page in running():
        for block in blocks(page):
            if block.runs and block.language == "sh" and not reason(page, block):
                assert not re.search(r"&&|\|\|", block.text), f"{page}: {block.text}"


def test_everything_that_is_said_to_be_said_belongs_to_a_page_that_runs() -> None:
    assert set(SAYS) | set(NEEDS) | QUICK <= set(running())


def test_pages_that_the_readme_names_are_run() -> None:
    named = re.findall(r"\]\(docs/([\w/-]+\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named
    assert {page for page in named if any(b.runs for b in blocks(page))} <= set(running()) | {p for p, _ in NOT_RUN}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_table_of_the_page_on_tuning_can_be_measured_again(tmp_path: Path) -> None:
    """In its quick form: the first row, with the columns that the page shows."""
    measure = [sys.executable, "-m", "tools.tuning", "--quick", "--out", str(tmp_path / "table.csv")]
    subprocess.run(measure, cwd=ROOT, check=True, capture_output=True, text=True)
    new, shown = (
        path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "table.csv", DOCS / "how-to/tuning.csv")
    )
    assert new[0] == shown[0]
    assert new[1].split(",")[:1] == shown[1].split(",")[:1]
    assert len(shown) > 5


def test_json_in_pages_is_json() -> None:
    for page in pages():
        for block in blocks(page):
            if block.language == "json":
                json.loads(block.text)
