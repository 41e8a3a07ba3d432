"""The report holds everything, loads nothing and escapes whatever comes from data."""

import base64
import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure
from PIL import Image

from alphaedge.report import figures, simulation_report
from alphaedge.report.styles import NO_NUMBER

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
VOID = {"meta", "img", "source", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Collects tags with their attributes, and text by tag; checks that tags are nested properly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def of(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def method(**changes: Any) -> dict[str, Any]:
    sizes = {"full": 4_000_000, "common": 2_000_000, "changed": 1_000_000}
    return {
        "mean": 0.78125,
        "ci95": 0.01,
        "per_edge": [0.7, 0.8],
        "per_seed": [0.77, 0.79],
        "pooled": 0.75,
        "loss": 0.5,
        "bytes": sizes,
        "edge_batches_per_second": 1234.5,
    } | changes


def summary(**changes: Any) -> dict[str, Any]:
    return {
        "data": "synthetic",
        "task": "classify",
        "predicts": "sold; 3,000 events",
        "metric": "AUC",
        "loss": "log loss",
        "edges": 2,
        "names": None,
        "clusters": [0, 1],
        "adversaries": {"0": []},
        "messages": [],
        "methods": {"noagg": method(mean=0.7), "alphaedge": method()},
        "baselines": {},
        "verdict": None,
    } | changes


def verdict(**changes: Any) -> dict[str, Any]:
    region = {"events": 2000, "alone": 0.7, "with_peers": 0.75, "gain": 0.05, "ci95": 0.01, "bytes": 1000}
    return {
        "headline": "Learning from each other pays.",
        "sentences": ["From 5% on."],
        "conclusion": "pays",
        "warnings": ["Only 3 rounds."],
        "regions": [region | {"name": "Oslo"}, region | {"name": "Rome", "gain": 0.06, "ci95": None}],
    } | changes


@pytest.fixture
def render(tmp_path: Path) -> Any:
    def made(given: dict[str, Any], pictures: Any = (), config: str = "seeds = 2\n", title: str = "A run") -> Page:
        path = tmp_path / "report.html"
        simulation_report.write(path, summary=given, figures=pictures, config_toml=config, title=title)
        return Page(path.read_text(encoding="utf-8"))

    return made


def picture() -> Figure:
    return figures.score_per_edge(summary())


def test_the_page_loads_nothing_from_anywhere(render: Any) -> None:
    page = render(summary(), {"Score per edge": picture()})
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"}
    links = [value for _, given in page.tags for name, value in given.items() if name in ("src", "href", "srcset")]
    assert len(links) == 2, "one for a light page, one for a dark one"
    assert all(link.startswith("data:image/png;base64,") for link in links)
    [style] = page.of("style")
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_forbids_browsers_to_load_anything(render: Any) -> None:
    [policy] = [tag["content"] for tag in render(summary()).all("meta") if "http-equiv" in tag]
    assert "default-src 'none'" in policy


def test_the_picture_in_the_page_is_the_picture(render: Any) -> None:
    [image] = render(summary(), {"Score per edge": picture()}).all("img")
    assert base64.b64decode(image["src"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


def test_a_dark_page_has_a_dark_picture(render: Any) -> None:
    page = render(summary(), {"Score per edge": picture()})
    [image], [source] = page.all("img"), page.all("source")
    assert source["media"] == "(prefers-color-scheme: dark)"
    light, dark = (
        Image.open(io.BytesIO(base64.b64decode(link.removeprefix("data:image/png;base64,")))).convert("L")
        for link in (image["src"], source["srcset"])
    )
    assert light.size == dark.size
    assert light.getpixel((0, 0)) == 255
    assert dark.getpixel((0, 0)) < 40
    assert dark.getextrema()[1] > 200, "text is light"


def test_the_verdict_comes_first(render: Any) -> None:
    page = render(summary(verdict=verdict()))
    assert page.of("strong")[0] == "Learning from each other pays."
    assert page.of("li") == ["From 5% on.", "Only 3 rounds."]
    assert page.of("td")[:5] == ["+0.0600", "0.7000", "0.7500", "2,000", "1.0 kB"]
    assert page.of("td")[5] == "+0.0500 ± 0.0100"
    sections = [given.get("class") for tag, given in page.tags if tag in ("section", "dl")]
    assert sections == ["verdict pays", None]


def test_of_many_regions_those_with_the_largest_and_smallest_gains_are_shown(render: Any) -> None:
    regions = [verdict()["regions"][0] | {"name": f"r{i}", "gain": i / 1000} for i in range(1000)]
    names = render(summary(verdict=verdict(regions=regions))).of("th")
    rows = names[names.index("r999") :]
    assert "… 940 more" in rows
    assert {"r999", "r970", "r29", "r0"} <= set(rows)
    assert not {"r969", "r30"} & set(rows)


def test_baselines_stand_below_the_methods(render: Any) -> None:
    row = {"mean": 0.6, "per_edge": [0.6], "pooled": 0.5, "loss": 0.75}
    page = render(summary(loss="RMSE", task="regress", baselines={"running mean": row}))
    assert page.of("em") == ["running mean"]
    assert page.of("td")[-3:] == ["0.6000", "0.5000", "0.7500"]
    assert "RMSE" in page.of("th")
    assert any("in the unit of the label" in text for text in page.of("p"))


def test_a_script_in_a_method_message_is_escaped(render: Any) -> None:
    page = render(summary(messages=[EVIL]))
    assert page.all("script") == page.all("img") == []
    assert page.of("li") == [EVIL]


def test_everything_from_data_is_escaped(render: Any) -> None:
    given = summary(
        data=EVIL,
        task=EVIL,
        metric=EVIL,
        messages=[EVIL],
        names=["a", EVIL],
        adversaries={EVIL: [1]},
        methods={EVIL: method()},
        verdict=verdict(headline=EVIL, sentences=[EVIL], warnings=[EVIL], conclusion=EVIL),
        baselines={EVIL: {"mean": 0.1, "pooled": 0.1, "loss": 0.1}},
    )
    page = render(given, [(EVIL, EVIL, picture())], config=EVIL, title=EVIL)
    assert not page.all("script")
    [image] = page.all("img")
    assert set(image) == {"alt", "src"}
    assert all("style" in given for given in page.all("span"))
    for tag in ("title", "h1", "h2", "dd", "th", "li", "figcaption", "code", "strong", "em"):
        assert any(EVIL in text for text in page.of(tag)), tag


def test_the_table_shows_every_number_of_a_method(render: Any) -> None:
    page = render(summary(methods={"alphaedge": method()}))
    assert page.of("th")[-1] == "AlphaEdge"
    assert page.of("strong") == ["0.7812"]
    assert page.of("td") == ["± 0.0100", "0.7500", "0.5000", "1.0 MB of 4.0 MB (25.0%)", "1,234"]


def test_only_the_best_mean_is_bold(render: Any) -> None:
    methods = {"alphaedge": method(mean=0.71), "nops": method(mean=0.72), "noagg": method(mean=None)}
    assert render(summary(methods=methods)).of("strong") == ["0.7200"]


def test_methods_have_their_usual_order_and_names(render: Any) -> None:
    names = ["b-new", "a-new", "nops-paper", "noagg", "uniweight"]
    page = render(summary(methods={name: method() for name in names}))
    assert page.of("th")[-5:] == ["UniWeight", "NoAgg", "NoPS (paper)", "a-new", "b-new"]


def test_a_missing_number_is_a_dash(render: Any) -> None:
    bare = method(mean=None, ci95=None, pooled=None, loss=float("nan"), per_seed=[None])
    bare["bytes"] = {"full": 0, "common": 0, "changed": 0}
    page = render(summary(methods={"noagg": bare}))
    assert page.of("td") == [NO_NUMBER, NO_NUMBER, NO_NUMBER, "none", "1,234"]
    assert page.of("strong") == []


@pytest.mark.parametrize(("seeds", "ci95", "says"), [(1, None, "One seed"), (5, 0.1, "over 5 seeds")])
def test_the_page_says_what_its_intervals_are(render: Any, seeds: int, ci95: float | None, says: str) -> None:
    page = render(summary(methods={"alphaedge": method(ci95=ci95, per_seed=[0.5] * seeds)}))
    assert any(says in text for text in page.of("p"))
    assert any("±" in text for text in page.of("td")) == (seeds > 1)


def test_without_messages_there_is_no_section_for_them(render: Any) -> None:
    assert "Messages" not in render(summary()).of("h2")
    assert "Messages" in render(summary(messages=["edge 3 is slow"])).of("h2")


def test_the_page_says_which_edges_were_adversaries(render: Any) -> None:
    assert "seed 0: 1, 4; seed 2: 3" in render(summary(adversaries={"0": [1, 4], "1": [], "2": [3]})).of("dd")
    named = summary(names=["Oslo", "Rome"], adversaries={"0": [1]})
    assert "seed 0: Rome" in render(named).of("dd")
    assert "Adversaries" not in render(summary(adversaries={"0": []})).of("dt")


def test_a_figure_without_a_caption_gets_the_one_of_its_kind(render: Any) -> None:
    page = render(summary(), [("One", "", picture()), ("Two", "Mine.", picture())])
    assert page.of("figcaption") == [simulation_report.CAPTIONS["score_per_edge"], "Mine."]


def test_every_kind_of_figure_has_a_caption() -> None:
    cells = {"method": ["nops"], "seed": [0], "edge": [0], "peer": [1], "time": [0.5], "score": [0.5]}
    table = pl.DataFrame(cells | {"aggregation": [0], "share": [1.0], "count": [1]})
    made = [
        figures.scores_over_time(table, "AUC"),
        figures.weight_matrix(table, "nops"),
        figures.who_pulls_from_whom(table, "nops"),
        picture(),
    ]
    assert {str(figure.get_label()) for figure in made} == set(simulation_report.CAPTIONS)


@pytest.mark.parametrize("label", ["score_per_edge", "Nothing was mixed.", ""])
def test_every_image_has_an_alternative_text(render: Any, label: str) -> None:
    figure = Figure(figsize=(1, 1))
    figure.set_label(label)
    [image] = render(summary(), [("My title", "My caption.", figure)]).all("img")
    first = simulation_report.CAPTIONS.get(label, label or "My caption.").split(". ")[0]
    assert image["alt"] == f"My title. {first}"


def test_the_configuration_is_folded_and_unchanged(render: Any, tmp_path: Path) -> None:
    config = '[data]\nname = "a<b>"\n\n[[x]]\n'
    assert len(render(summary(), config=config).all("details")) == 1
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<code>[data]\nname = &#34;a&lt;b&gt;&#34;\n\n[[x]]\n</code>" in raw


def test_the_page_fits_a_phone_and_the_dark(render: Any) -> None:
    page = render(summary())
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all("meta")
    [style] = page.of("style")
    assert "prefers-color-scheme: dark" in style


def test_a_run_without_a_finished_method_has_a_report(render: Any) -> None:
    assert render(summary(methods={}, clusters=None)).of("td") == []
