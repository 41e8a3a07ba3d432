"""The documentation site builds without a complaint, has everything that the code has, and nothing that it has not."""

import ast
import contextlib
import doctest
import fcntl
import html.parser
import importlib
import os
import posixpath
import re
import shlex
import subprocess
import sys
import textwrap
import time
import tomllib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import msgspec
import pytest
import typer
import yaml  # type: ignore[import-untyped, unused-ignore]

import alphaedge
from alphaedge import AlphaEdge, Greedy, Learned, Store
from alphaedge.cli import app, certs
from alphaedge.core import aggregation
from alphaedge.edge import server_process as serve
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.directory import gossip, membership
from alphaedge.edge.directory import nats as nats_directory
from alphaedge.edge.inputs import numbering
from alphaedge.edge.learning.loop import checkpoints as checkpoint
from alphaedge.edge.peers import wire
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.server_process import journal_clock
from alphaedge.edge.serving.http import Server
from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.serving.openapi import describe
from alphaedge.edge.serving.service import Service
from alphaedge.edge.store.status import LearnerStatus, PeerStatus, write
from alphaedge.edge.transport.server import STATUS_BY_ERROR
from alphaedge.edge.trust import announcements
from alphaedge.simulation.config import Settings

from .test_live_docs import DOCS, ROOT, Block, blocks, pages

# Written before there was a site, and kept as they are: they speak of the code as it was measured.
RECORDS = ("decisions/", "results/")
LANGUAGES = {"sh", "python", "toml", "text", "json", "yaml"}
COMMON = {"--help", "--install-completion", "--show-completion"}  # of every command, and of all programs with typer
FOREIGN = COMMON | {"--signal"}  # and those of other programs that the text of a page names
MEASURE = (DOCS / "_hooks" / "measure.py").read_text(encoding="utf-8")
# Names that look like a metric and are none.
NO_METRICS = {"alphaedge_docs"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all workers of a test run."""
    shared = tmp_path_factory.getbasetemp().parent
    folder = shared / f"site-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with (shared / "site is built").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert found.returncode == 0, found.stdout + found.stderr
            assert "WARNING" not in found.stderr, found.stderr
            (folder / "built").touch()
    return folder


class Page(html.parser.HTMLParser):
    """A page of the site: what it links to, what can be linked to, what it loads, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []
        self.code: list[str] = []
        self._silent = self._coding = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._silent += tag in ("script", "style")
        if tag == "code":
            self._coding = 1
            self.code.append("")
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        for attribute in ("src", "data-src"):
            if found.get(attribute):
                self.loads.append(str(found[attribute]))
        if tag == "link" and found.get("href") and found.get("rel") != "canonical":
            self.loads.append(str(found["href"]))

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")
        self._coding = 0 if tag == "code" else self._coding

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text.append(data)
        if self._coding:
            self.code[-1] += data


@pytest.fixture(scope="session")
def built(site: Path) -> dict[str, Page]:
    """All pages of the site, by their path. results.html is a report of its own, and is looked at by its own tests."""
    found = sorted(site.rglob("index.html"))
    return {str(path.relative_to(site)): Page(path) for path in found}


def anchors(built: dict[str, Page], kind: str) -> set[str]:
    """What the reference has anchors of that kind for."""
    return {i.removeprefix(f"{kind}-") for page in built.values() for i in page.ids if i.startswith(f"{kind}-")}


# What the code has, found by other means than those that write the pages.


def keys(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        inner = [
            t for t in (field.type, *get_args(field.type)) if isinstance(t, type) and issubclass(t, msgspec.Struct)
        ]
        if inner:
            yield from keys(inner[0], f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(app)
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, (*words, name))
        else:
            yield (*words, name), one


COMMANDS = dict(commands())


def _default(*words: str, name: str) -> Any:
    return next(p.default for p in COMMANDS[words].params if p.name == name)


OPTIONS = {
    words: {o for p in one.params if p.param_type_name == "option" for o in (*p.opts, *p.secondary_opts)} - COMMON
    for words, one in COMMANDS.items()
}


def metrics(tmp_path: Path) -> dict[str, tuple[str, str]]:
    """Names as Prometheus reads them, with type and help, from what a page of an edge would say."""
    write(
        LearnerStatus(edge="a", region="DE", schema="0", started=0.0, peers={"b": PeerStatus(region="US")}),
        tmp_path / "status.json",
    )
    page = Metrics(tmp_path / "status.json", lambda: 0, time.time).page().decode()
    kinds = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", page))
    helps = dict(re.findall(r"(?m)^# HELP (\w+) (.+)$", page))
    return {name: (kind, helps[name]) for name, kind in kinds.items() if not name.endswith("_created")}


def written() -> list[str]:
    """Pages that are held against the code."""
    return [page for page in pages() if not page.startswith(RECORDS)]


def prose(page: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def inline(page: str) -> list[str]:
    """What stands in backticks in a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


# The site.


def test_the_site_builds_without_a_complaint(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "search" / "search_index.json").is_file()


def test_every_page_that_was_written_is_in_the_site(built: dict[str, Page]) -> None:
    for page in pages():
        path = page.removesuffix(".md").replace("README", "index")
        expected = "index.html" if path == "index" else f"{path.removesuffix('/index')}/index.html"
        assert expected in built, page


def test_links_and_anchors_hold(site: Path, built: dict[str, Page]) -> None:
    wrong = []
    for path, page in built.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), urllib.parse.unquote(parts.path)))
            target = path if not parts.path else target
            if (site / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            fragment = urllib.parse.unquote(parts.fragment)
            if not (site / target).is_file():
                wrong.append((path, link, "no such file"))
            elif fragment and target in built and fragment not in built[target].ids and fragment != "__skip":
                wrong.append((path, link, "no such anchor"))
    assert not wrong


def test_nothing_is_loaded_from_elsewhere(site: Path, built: dict[str, Page]) -> None:
    assert not [
        (path, load) for path, page in built.items() for load in page.loads if "://" in load or load[:2] == "//"
    ]
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet
    assert not any("arithmatex" in path.read_text(encoding="utf-8") for path in site.rglob("index.html"))


def test_equations_are_drawn_without_a_script(site: Path) -> None:
    page = (site / "method" / "index.html").read_text(encoding="utf-8")
    assert page.count('<div class="equation"><math') == 8
    assert "<merror" not in page
    assert not re.findall(r"\\(?:frac|sum|mathrm|left)\b", re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL))


def test_nothing_that_was_to_be_filled_in_is_left(built: dict[str, Page], site: Path) -> None:
    assert not [path for path in built if "<!-- make:" in (site / path).read_text(encoding="utf-8")]


def test_the_lines_of_the_method_are_those_of_the_code(built: dict[str, Page]) -> None:
    marks = re.findall(r"<!-- make: source ([\w.]+) -->", (DOCS / "method.md").read_text(encoding="utf-8"))
    assert len(marks) >= 10
    for mark in marks:
        module, _, name = mark.rpartition(".")
        owner, _, inner = module.rpartition(".")
        path, wanted = (owner, f"{inner}.{name}") if inner[0].isupper() else (module, name)
        source = (ROOT / "src" / Path(*path.split(".")).with_suffix(".py")).read_text(encoding="utf-8")
        code = textwrap.dedent("\n".join(_lines(source, wanted)))
        assert any(code in shown for shown in built["method/index.html"].code), mark


def _lines(source: str, name: str) -> list[str]:
    """The lines that define something, by its name."""
    body: Any = ast.parse(source).body
    for part in name.split("."):
        node = next(n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part)
        body = node.body
    return source.splitlines()[node.lineno - 1 : node.end_lineno]


def test_examples_in_the_code_that_makes_pages_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "_hooks")
    found = doctest.testmod(importlib.import_module("alphaedge_docs.docstrings"))
    assert found.attempted
    assert not found.failed


# Everything that the code has is there, and nothing else.


def test_every_key_of_an_edge_is_there_and_no_other(built: dict[str, Page]) -> None:
    assert anchors(built, "key") == set(keys(EdgeConfig))


def test_every_setting_of_a_simulation_is_there_and_no_other(built: dict[str, Page]) -> None:
    assert anchors(built, "setting") == set(keys(Settings))


def test_every_command_is_there_and_no_other(built: dict[str, Page]) -> None:
    assert anchors(built, "command") == {"-".join(words) for words in COMMANDS}


def test_every_option_and_argument_is_there_and_no_other(built: dict[str, Page]) -> None:
    assert anchors(built, "option") == {f"{'-'.join(w)}{o}" for w, some in OPTIONS.items() for o in some}
    arguments = {
        f"{'-'.join(words)}-{p.name}"
        for words, c in COMMANDS.items()
        for p in c.params
        if p.param_type_name == "argument"
    }
    assert anchors(built, "argument") == arguments


def test_every_metric_is_there_with_its_help_and_no_other(built: dict[str, Page], tmp_path: Path) -> None:
    found = metrics(tmp_path)
    assert anchors(built, "metric") == set(found)
    text = " ".join("".join(built["reference/metrics/index.html"].text).split())
    for name, (kind, said) in found.items():
        assert re.search(rf"{name} {kind} .*{re.escape(said)}", text), name


def test_every_path_of_an_edge_is_there(built: dict[str, Page], tmp_path: Path) -> None:
    config = _edge(tmp_path)
    service = Service(config, tmp_path, journal_clock)
    try:
        server = Server(service, alphaedge.__version__)
        routes = {r.path.replace(f"/models/{config.model.name}", "/models/{name}") for r in server._rest.routes}  # type: ignore[attr-defined]
    finally:
        service.close()
    routes = {re.sub(r"/versions/\d+", "/versions/{version}", r) for r in routes}
    text = "".join(built["reference/http/index.html"].text)
    shown = set(re.findall(r"(?:GET|POST) (/[\w{}/.]+)", text))
    assert {r for r in routes if not r.startswith("/dashboard/")} == shown
    assert shown >= set(describe(config, "0", token=True)["paths"])


def test_every_public_name_of_python_is_there_and_no_other(built: dict[str, Page]) -> None:
    assert {name for name in anchors(built, "api") if "." not in name} == set(alphaedge.__all__)


def test_every_alert_is_there(built: dict[str, Page]) -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    text = "".join(built["how-to/monitoring/index.html"].text)
    assert all(rule["alert"] in text for group in groups for rule in group["rules"])


# What pages say by hand.


def test_every_block_is_of_a_language_that_is_looked_at() -> None:
    assert {b.language for page in pages() for b in blocks(page)} <= LANGUAGES


def test_python_in_pages_can_be_read() -> None:
    for page in written():
        for block in blocks(page):
            if block.language == "python":
                ast.parse(block.text, f"docs/{page}")


def commands_of(page: str) -> Iterator[list[str]]:
    """All that a page has of ``alphaedge`` with its words: commands in blocks, and names of them in its text."""
    for block in [b for b in blocks(page) if b.language == "sh"] + [Block("sh", "", f"{t}\n") for t in inline(page)]:
        for line in block.text.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s*(?:\||&&|;|&|>|2>)\s*", line):
                words = shlex.split(part, comments=True) if "alphaedge" in part and "'" not in part.strip("'") else []
                while words and (words[0] == "do" or re.fullmatch(r"\w+=\S*", words[0])):
                    words = words[1:]
                if words and posixpath.basename(words[0]) == "alphaedge" and len(words) > 1:
                    yield words[1:]


@pytest.mark.parametrize("page", written())
def test_commands_and_options_that_are_named_are_there(page: str) -> None:
    for words in commands_of(page):
        if words[0].startswith("-") or words[0].isupper():
            assert words[0] in FOREIGN or words[0].isupper(), words
            continue
        path = next((w for w in (tuple(words[:2]), tuple(words[:1])) if w in COMMANDS), None)
        groups = {w[0] for w in COMMANDS if len(w) == 2}
        assert path or (len(words) == 1 and words[0] in groups), f"there is no alphaedge {' '.join(words)}"
        for word in words:
            if path and word.startswith("--"):
                assert word in OPTIONS[path] | FOREIGN, f"alphaedge {' '.join(path)} has no {word}"
    known = set[str]().union(*OPTIONS.values()) | FOREIGN
    for text in inline(page):
        for option in re.findall(r"(?:^| )(--[a-z][a-z-]+)", text):
            assert option in known, f"{option} is of no command"


def test_examples_that_commands_show_have_no_other_options_than_the_command() -> None:
    shown = 0
    for command in COMMANDS.values():
        for line in re.findall(r"(?m)^alphaedge (.+)$", command.epilog or ""):
            words = line.partition(" | ")[0].split()
            path = next(w for w in (tuple(words[:2]), tuple(words[:1])) if w in COMMANDS)
            assert {w for w in words if w.startswith("--")} <= OPTIONS[path], line
            shown += 1
    assert shown > 20


@pytest.mark.parametrize("page", written())
def test_keys_that_are_named_are_there(page: str) -> None:
    known = {*keys(EdgeConfig), *keys(Settings)}
    sections = {k.rpartition(".")[0] for k in known}
    for text in inline(page):
        if re.fullmatch(r"(?:model|method|serve|peers|feedback|store|conditions|table)\.[a-z_.]+", text):
            assert text in known | sections, text
    for block in blocks(page):
        if block.language == "toml":
            raw = tomllib.loads(block.text)
            assert set(_paths(raw)) <= known, block.text
            if block.title:
                msgspec.convert(raw, EdgeConfig)


def _paths(raw: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in raw.items():
        for one in value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]:
            if isinstance(one, dict):
                yield from _paths(one, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}"


@pytest.mark.parametrize("page", written())
def test_metrics_that_are_named_are_there(page: str, tmp_path: Path) -> None:
    known = set(metrics(tmp_path)) | {
        f"{name}{part}" for name in metrics(tmp_path) for part in ("_bucket", "_sum", "_count")
    }
    named = set(re.findall(r"\balphaedge_[a-z_]+\b", (DOCS / page).read_text(encoding="utf-8")))
    # A gauge may be named without its suffix where that is clear, a counter with _total.
    assert named <= known | NO_METRICS


@pytest.mark.parametrize("page", written())
def test_files_of_the_repository_that_are_named_are_there(page: str) -> None:
    for text in inline(page):
        if re.fullmatch(r"(?:deploy|docs|src|tests|examples|benchmarks)/[\w@./-]+", text):
            assert (ROOT / text).exists(), text
    for name in re.findall(r"python -m benchmarks\.([a-z]+)", (DOCS / page).read_text(encoding="utf-8")):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name


@pytest.mark.parametrize("page", written())
def test_paths_of_an_edge_that_are_named_are_there(page: str, tmp_path: Path) -> None:
    described = describe(_edge(tmp_path), "0", token=False)["paths"]
    besides = {"/metrics", "/fleet/stream", "/dashboard", "/peer/again/TOKEN?from=BYTES"}
    known = {re.sub(r"\{name\}", "NAME", path) for path in described} | besides
    for text in inline(page):
        for path in re.findall(r"(?:GET|POST) (/\S*)", text):
            assert path in known, path


def test_what_edges_ask_each_other_is_there_and_no_other() -> None:
    text = (DOCS / "reference/wire.md").read_text(encoding="utf-8")
    handlers = {**PeerDriver.handlers(Mock()), **gossip.Gossip.handlers(Mock())}
    assert set(re.findall(r"`/peer/([a-z]+)`", text)) == set(handlers)
    named = {int(status) for status in re.findall(r"(?m)^\| (\d{3}) \|", text)}
    assert named == {kind.status_code for kind in STATUS_BY_ERROR.values()} | {404}


@pytest.mark.parametrize(
    ("page", "said", "found"),
    [
        ("reference/wire.md", "48 bits of BLAKE2b", numbering.KEY_BYTES * 8 == 48),
        ("security.md", "48 bits of BLAKE2b", numbering.KEY_BYTES * 8 == 48),
        ("reference/wire.md", "more than 100 times as large as the own", wire.LARGEST == 100),
        ("security.md", "more than 100 times the own size", wire.LARGEST == 100),
        ("reference/wire.md", "at most 100,000 bytes", announcements.MAX_ANNOUNCEMENT_BYTES == 100_000),
        ("reference/wire.md", "Each second", gossip.ROUND_SECONDS == 1),
        (
            "reference/wire.md",
            "two edges that are there and one that is down",
            (membership.LIVE_CONTACTS, membership.DOWN_CONTACTS) == (2, 1),
        ),
        ("reference/wire.md", "more than a minute ahead", membership.MAX_CLOCK_LEAD_MS == 60_000),
        ("reference/wire.md", "for five seconds counts as down", membership.Membership.down_after == 5),
        ("reference/wire.md", "after a week it is forgotten", membership.Membership.forget_after == 7 * 86_400),
        ("method.md", "at most four times the own", aggregation.MOST == 4),
        ("security.md", "at most four times the own", aggregation.MOST == 4),
        ("method.md", "half way back", aggregation.Learned().pull == 0.5),
        ("how-to/certificates.md", "end within 14 days", certs.SOON.days == 14),
        ("how-to/certificates.md", "90 days is what `--days` is", _default("certs", "issue", name="days") == 90),
        ("how-to/upgrade.md", "up to three other schemas", checkpoint.SCHEMAS == 3),
        ("how-to/systemd.md", "20 seconds for that", serve.GRACE == 20),
        ("how-to/tuning.md", "with three seeds", "SEEDS: Final = 3" in MEASURE),
        ("how-to/tuning.md", "24 regions in four clusters", (Store().edges, Store().clusters) == (24, 4)),
        ("how-to/tuning.md", "20,000 events each", Store().events == 20_000),
        ("how-to/nats.md", "three replicas", nats_directory.REPLICAS == 3),
    ],
)
def test_numbers_that_pages_state_are_those_of_the_code(page: str, said: str, found: bool) -> None:
    assert said in " ".join((DOCS / page).read_text(encoding="utf-8").split()), "the page says it in other words now"
    assert found, f"{page}: {said}"


def test_the_defaults_on_the_page_on_tuning_are_those_of_the_code() -> None:
    text = (DOCS / "how-to/tuning.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"`method\.(\w+)` \|.*\| ([\d.]+) \|", text))
    ours = {"aggregate_every": AlphaEdge().aggregate_every, "peers": Greedy().peers, "weight_rate": Learned().rate}
    assert {name: float(value) for name, value in shown.items()} == ours


def test_the_example_of_prometheus_is_part_of_what_is_deployed() -> None:
    (shown,) = [yaml.safe_load(b.text) for b in blocks("how-to/monitoring.md") if b.language == "yaml"]
    whole = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    assert _within(shown, whole)


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and _within(v, whole[key]) for key, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_within(one, other) for other in whole) for one in part)
    return bool(part == whole)


def test_pages_have_no_paths_of_a_machine_and_no_emoji() -> None:
    for page in written():
        text = (DOCS / page).read_text(encoding="utf-8")
        assert not re.findall(r"/(?:home|root|work|Users|tmp)/", text), page
        assert not re.findall(r"[\U0001F000-\U0001FAFF\u2600-\u27BF]", text), page


def _edge(folder: Path) -> EdgeConfig:
    """As ``alphaedge edge init`` writes it."""
    with contextlib.suppress(FileExistsError):
        text = (ROOT / "src/alphaedge/edge/example.toml").read_text(encoding="utf-8")
        (folder / "edge.toml").write_text(text.replace("{edge}", "berlin").replace("{region}", "DE"), encoding="utf-8")
    return load(folder / "edge.toml")
