"""Everything that the pages of the documentation name is there: commands, keys, metrics, files, paths and numbers."""

import ast
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

from alphaedge import Greedy, Learned, Store
from alphaedge.cli import certs
from alphaedge.core.methods import alphaedge as alphaedge_method
from alphaedge.core.methods import ditto, fedfomo, pens
from alphaedge.core.rules.aggregation import learned
from alphaedge.core.rules.aggregation.rivals.fedfomo import FedFomo
from alphaedge.core.rules.aggregation.rivals.pens import Pens
from alphaedge.core.rules.aggregation.rivals.proximal import Proximal
from alphaedge.core.rules.selection.rivals.best_so_far import BestSoFar
from alphaedge.edge import supervisor
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.directory import exchange, gossip, membership, senders
from alphaedge.edge.directory import nats as nats_directory
from alphaedge.edge.inputs import numbering
from alphaedge.edge.learning import checkpoints
from alphaedge.edge.peers import answer_check
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.serving.openapi import describe
from alphaedge.edge.transport.server import STATUS_BY_ERROR, STATUS_BY_LIMIT
from alphaedge.edge.trust import announcements, certificates, expiry, revocations
from alphaedge.experiments import equal_bytes
from alphaedge.simulation.config import Settings
from tools import tuning

from .inventory import COMMANDS, COMMON_OPTIONS, OPTIONS, ROOT, default_of, keys, metrics, new_edge
from .test_live_docs import DOCS, Block, blocks, hand_written, pages

# Records of what was measured: they describe the code as it was then.
RECORDS = ("decisions/", "results/")
LANGUAGES = {"sh", "python", "toml", "text", "json", "yaml"}
FOREIGN = COMMON_OPTIONS | {"--signal"}  # options of other programs that pages name


def written() -> list[str]:
    """Pages that are compared with the code."""
    return [page for page in pages() if not page.startswith(RECORDS)]


def inline(page: str) -> list[str]:
    """The code in the running text of a page."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```$", "", hand_written(page)))


def test_every_decision_is_in_the_index_by_its_title() -> None:
    index = (DOCS / "decisions" / "index.md").read_text()
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        number, title = path.read_text().splitlines()[0].removeprefix("# ").split(". ", 1)
        assert f"| [{int(number)}. {title}]({path.name}) |" in index


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
def test_keys_that_are_named_are_there(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # a configuration may name rules in a file of the page
    for block in blocks(page):
        if block.language == "python" and block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
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
    assert named <= known


@pytest.mark.parametrize("page", written())
def test_files_of_the_repository_that_are_named_are_there(page: str) -> None:
    for text in inline(page):
        if re.fullmatch(r"(?:deploy|docs|src|tests|examples|benchmarks)/[\w@./-]+", text):
            assert (ROOT / text).exists(), text
    for name in re.findall(r"python -m benchmarks\.([a-z_]+)", (DOCS / page).read_text(encoding="utf-8")):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name


@pytest.mark.parametrize("page", written())
def test_paths_of_an_edge_that_are_named_are_there(page: str, tmp_path: Path) -> None:
    described = describe(new_edge(tmp_path), "0", token=False)["paths"]
    besides = {"/", "/metrics", "/fleet/stream", "/dashboard", "/peer/again/TOKEN?from=BYTES"}
    known = {re.sub(r"\{name\}", "NAME", path) for path in described} | besides
    for text in inline(page):
        for path in re.findall(r"(?:GET|POST) (/\S*)", text):
            assert path in known, path


def test_what_edges_ask_each_other_is_there_and_no_other() -> None:
    text = (DOCS / "reference/wire.md").read_text(encoding="utf-8")
    routes = {**PeerDriver.routes(Mock()), **gossip.Gossip.routes(Mock())}
    assert set(re.findall(r"`/peer/([a-z]+)`", text)) == set(routes)
    named = {int(status) for status in re.findall(r"(?m)^\| (\d{3}) \|", text)}
    assert named == {*STATUS_BY_ERROR.values(), *STATUS_BY_LIMIT.values(), 404, 411, 503}


@pytest.mark.parametrize(
    ("page", "words", "true"),
    [
        ("reference/wire.md", "48 bits of BLAKE2b", numbering.KEY_BYTES * 8 == 48),
        ("security.md", "48 bits of BLAKE2b", numbering.KEY_BYTES * 8 == 48),
        ("reference/wire.md", "more than 100 times as large as the own", answer_check.MAX_SIZE_RATIO == 100),
        ("security.md", "more than 100 times as large as its own", answer_check.MAX_SIZE_RATIO == 100),
        ("reference/wire.md", "at most 100,000 bytes", announcements.MAX_ANNOUNCEMENT_BYTES == 100_000),
        ("reference/wire.md", "Each second", gossip.ROUND_SECONDS == 1),
        (
            "reference/wire.md",
            "two edges that are alive and to one that is down",
            (exchange.LIVE_CONTACTS, exchange.DOWN_CONTACTS) == (2, 1),
        ),
        ("reference/wire.md", "has not moved for five seconds", membership.Membership.down_after == 5),
        (
            "reference/wire.md",
            "at most two announcements for each edge in the digest that it answers and 32 more, 300 KB of them",
            (exchange.ANNOUNCEMENTS_PER_EDGE, exchange.MORE_ANNOUNCEMENTS, exchange.MAX_ANNOUNCEMENTS_BYTES)
            == (2, 32, 300_000),
        ),
        (
            "reference/wire.md",
            "1 MB for a digest or a delta, 1.75 MB for the answer to a digest; 5,000 edges",
            (gossip.MAX_DIGEST_BYTES, gossip.MAX_DELTA_BYTES, gossip.MAX_ANSWER_BYTES, membership.MAX_EDGES)
            == (1_000_000, 1_000_000, 1_750_000, 5_000),
        ),
        ("reference/wire.md", "500 KB for a revocation list", revocations.MAX_LIST_BYTES == 500_000),
        ("reference/wire.md", "at the third false signature", exchange.MAX_FORGED == 3),
        (
            "reference/wire.md",
            "for 5 s, longer each time, up to 5 minutes",
            (senders.FIRST_REST_SECONDS, senders.MAX_REST_SECONDS) == (5, 300),
        ),
        ("how-to/certificates.md", "warns 14, 7, 3, 2 and 1 days before", expiry.WARN_DAYS == (14, 7, 3, 2, 1, 0)),
        (
            "how-to/certificates.md",
            "valid from a day before they are issued",
            certificates.CLOCK_TOLERANCE.days == 1,
        ),
        ("reference/wire.md", "after a week it is forgotten", membership.Membership.forget_after == 7 * 86_400),
        ("method.md", "capped at four times the edge's own", learned.MAX_RECORDS_RATIO == 4),
        ("security.md", "at most four times the receiver's own", learned.MAX_RECORDS_RATIO == 4),
        ("method.md", "half way back", Learned().prior == 0.5),
        ("how-to/certificates.md", "expire within 14 days", certs.RENEW_WITHIN.days == 14),
        (
            "how-to/certificates.md",
            "valid for 90 days unless you set `--days`",
            default_of("certs", "issue", name="days") == 90,
        ),
        ("how-to/upgrade.md", "up to three other schemas", checkpoints.MAX_OTHER_SCHEMAS == 3),
        ("how-to/systemd.md", "20 seconds to finish", supervisor.STOP_TIMEOUT_SECONDS == 20),
        ("how-to/tuning.md", "with three seeds", tuning.SEEDS == 3),
        ("how-to/tuning.md", "24 regions in four clusters", (Store().edges, Store().clusters) == (24, 4)),
        ("how-to/tuning.md", "20,000 events each", Store().events == 20_000),
        ("rivals.md", "the 2 of *K* = 5 models", (pens().aggregation, pens().selection.peers) == (Pens(kept=2), 5)),
        ("rivals.md", "2 places are drawn at random", pens().selection == BestSoFar(explore=2)),
        ("rivals.md", "the own model keeps half", fedfomo().aggregation == FedFomo(own=0.5)),
        ("rivals.md", "a tenth of the way (`pull`)", ditto().aggregation == Proximal(pull=0.1)),
        ("rivals.md", "at most 1.1 times as much", equal_bytes.EQUAL == 1.1),
        ("how-to/nats.md", "three replicas", nats_directory.REPLICAS == 3),
    ],
)
def test_numbers_that_pages_state_are_those_of_the_code(page: str, words: str, true: bool) -> None:
    assert words in " ".join((DOCS / page).read_text(encoding="utf-8").split()), (
        "the page has other words now: change them here too"
    )
    assert true, f"{page}: {words}"


@pytest.mark.parametrize("page", ["security.md", "privacy.md"])
def test_the_tests_that_a_page_of_claims_names_are_there(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / page).read_text(encoding="utf-8")))
    files = (ROOT / "tests").rglob("test_*.py")
    there = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert named <= there


def test_the_defaults_on_the_page_on_tuning_are_those_of_the_code() -> None:
    text = (DOCS / "how-to/tuning.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"`method\.(\w+)` \|.*\| ([\d.]+) \|", text))
    ours = {
        "aggregate_every": alphaedge_method().aggregate_every,
        "peers": Greedy().peers,
        "weight_rate": Learned().rate,
    }
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
