"""The documentation site builds without a warning, its links hold, and it loads nothing from elsewhere."""

import fcntl
import html
import html.parser
import os
import posixpath
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

import alphaedge

from .test_live_docs import ROOT, pages


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
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "WARNING" not in done.stderr, done.stderr
            (folder / "built").touch()
    return folder


class Page(html.parser.HTMLParser):
    """A page of the site: its links, its anchors and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loads += [values[name] for name in ("src", "data-src") if name in values]
        if tag == "link" and "href" in values and values.get("rel") != "canonical":
            self.loads.append(values["href"])


@pytest.fixture(scope="session")
def built(site: Path) -> dict[str, Page]:
    """All pages of the site, by their path. The report results.html has tests of its own."""
    return {str(path.relative_to(site)): Page(path) for path in sorted(site.rglob("index.html"))}


def test_every_page_is_in_the_site(site: Path, built: dict[str, Page]) -> None:
    assert (site / "search" / "search_index.json").is_file()
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


def test_equations_are_drawn_without_a_script(site: Path) -> None:
    page = (site / "method" / "index.html").read_text(encoding="utf-8")
    written = Path(__file__).parents[1] / "docs" / "method.md"
    blocks = written.read_text(encoding="utf-8").count("\n$$\n") // 2
    assert page.count('<div class="equation"><math') == blocks >= 9
    assert "<merror" not in page
    assert not re.findall(r"\\(?:frac|sum|mathrm|left)\b", re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL))
    assert not any("arithmatex" in path.read_text(encoding="utf-8") for path in site.rglob("index.html"))


def test_every_public_name_of_python_has_a_description(site: Path, built: dict[str, Page]) -> None:
    assert {f"alphaedge.{name}" for name in alphaedge.__all__} <= built["reference/python/index.html"].ids
    html_text = (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    for name in alphaedge.__all__:
        _, _, after = html_text.partition(f'id="alphaedge.{name}"')
        assert re.search(r"<p>\w", after.partition('<h3 id="')[0]), f"{name} has no description"


def test_signatures_of_python_have_types(site: Path) -> None:
    text = html.unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "python" / "index.html").read_text("utf-8")))
    assert "plot() -> Figure" in text
    assert "jobs: int = 1" in text


def test_the_changelog_is_included(site: Path) -> None:
    assert "Unreleased" in (site / "changelog" / "index.html").read_text(encoding="utf-8")
