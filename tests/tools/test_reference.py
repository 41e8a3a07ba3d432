"""The generated sections of the documentation are current, and have everything that the code has and nothing else."""

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

import alphaedge
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.serving.http import EdgeApp
from alphaedge.edge.serving.openapi import describe
from alphaedge.edge.serving.service import PredictionService
from alphaedge.edge.store.clock import journal_clock
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.config import Settings
from tools.reference.pages import DOCS, SECTION, fill, outdated_pages, pages

from ..inventory import COMMANDS, OPTIONS, ROOT, keys, metrics, new_edge


def section(page: str, name: str) -> str:
    """The body of a generated section."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return next(found["body"] for found in SECTION.finditer(text) if found["name"] == name)


def rows(text: str) -> list[str]:
    """The first cells of all tables in a text, without backticks."""
    cells = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")]
    return [cell.replace("`", "") for cell in cells if cell.startswith("`")]


def test_generated_sections_are_current() -> None:
    outdated = [str(path.relative_to(ROOT)) for path in outdated_pages()]
    assert not outdated, f"run `make reference` and commit what it writes: {outdated}"


def test_the_page_of_data_sets_has_every_one_of_the_catalog_and_every_licence() -> None:
    body = section("reference/data-sets.md", "data-sets")
    assert rows(body) == list(CATALOG)
    for source in CATALOG.values():
        assert source.package is None or f"| {source.package.licence} |" in body


def test_generated_sections_are_what_is_between_the_comments() -> None:
    page = "# A\n\n<!-- generated: alerts -->\nwhat was there\n<!-- end of generated -->\n\nBy hand.\n"
    fresh = fill(page)
    assert "what was there" not in fresh
    assert fresh.startswith("# A\n\n<!-- generated: alerts -->\n\n| alert |")
    assert fresh.endswith("\n\n<!-- end of generated -->\n\nBy hand.\n")
    assert fill(fresh) == fresh


def test_every_comment_that_opens_a_section_is_closed() -> None:
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert text.count("<!-- generated: ") == len(SECTION.findall(text)) == text.count("<!-- end of generated"), path
    names = {path.stem for path in pages() if path.parent.name == "reference"}
    assert names == {"commands", "configuration", "data-sets", "http", "metrics", "results", "wire"}


@pytest.mark.parametrize(("name", "struct"), [("edge-config", EdgeConfig), ("simulation-config", Settings)])
def test_every_key_is_there_and_no_other(name: str, struct: type) -> None:
    shown = set()
    for part in re.split(r"(?m)^### ", section("reference/configuration.md", name))[1:]:
        heading = re.match(r"`\[+([a-z.]+)\]+`", part)
        shown |= {f"{heading[1]}.{key}" if heading else key for key in rows(part)}
    assert shown == set(keys(struct))


def test_every_command_option_and_argument_is_there_and_no_other() -> None:
    parts = re.split(r"(?m)^## `alphaedge ([a-z ]+)`$", section("reference/commands.md", "commands"))[1:]
    shown = {tuple(words.split()): rows(text) for words, text in zip(parts[::2], parts[1::2], strict=True)}
    assert set(shown) == set(COMMANDS)
    for words, names in shown.items():
        options = {name for cell in names for name in cell.split(", ") if name.startswith("-")}
        assert options == OPTIONS[words], words
        arguments = [p for p in COMMANDS[words].params if p.param_type_name == "argument"]
        assert len([name for name in names if not name.startswith("-")]) == len(arguments), words


def test_every_metric_is_there_with_its_help_and_no_other(tmp_path: Path) -> None:
    text = section("reference/metrics.md", "metrics")
    found = metrics(tmp_path)
    assert set(rows(text)) == set(found)
    for name, (kind, words) in found.items():
        assert re.search(rf"`{name}` \| {kind} \| .*{re.escape(words)}", text), name


def test_every_path_of_an_edge_is_there_and_no_other(tmp_path: Path) -> None:
    config = new_edge(tmp_path)
    service = PredictionService(config, tmp_path, journal_clock)
    try:
        server = EdgeApp(service, alphaedge.__version__)
        routes = {r.path.replace(f"/models/{config.model.name}", "/models/{name}") for r in server._app.routes}  # type: ignore[attr-defined]
    finally:
        service.close()
    routes = {re.sub(r"/versions/\d+", "/versions/{version}", r) for r in routes}
    text = (DOCS / "reference/http.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(?:GET|POST) (/[\w{}/.]*)`", text))
    assert {r for r in routes if not r.startswith("/dashboard/")} == shown
    assert shown >= set(describe(config, "0", token=True)["paths"])


def test_every_public_name_of_python_is_there_and_no_other() -> None:
    shown = re.findall(r"(?m)^::: alphaedge\.(\w+)$", (DOCS / "reference/python.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(alphaedge.__all__)


def test_every_alert_is_there() -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    assert rows(section("how-to/monitoring.md", "alerts")) == [r["alert"] for g in groups for r in g["rules"]]
