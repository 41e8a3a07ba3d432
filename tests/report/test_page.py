"""A page says the same as Markdown and as HTML."""

from html.parser import HTMLParser
from pathlib import Path

from matplotlib.figure import Figure

from alphaedge.report.page import Block, Grid, Heading, Picture, Text, html, markdown, write


def blocks() -> list[Block]:
    figure = Figure()
    figure.add_subplot().plot([1, 2], [3, 4])
    return [
        Heading("A <title>", 1),
        Text("Some **bold** text with `code` & <tags>."),
        Grid(["name", "score"], [["one", "**0.5**"], ["two", "0.4"]]),
        Picture("line", 'a line from "3" to 4', figure),
    ]


class Reader(HTMLParser):
    """Collects tags, text and the sources of images."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.images: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_markdown_has_a_heading_a_table_and_a_link_to_the_picture() -> None:
    text = markdown(blocks(), "images/")
    assert text.startswith("# A <title>\n\n")
    assert "| name | score |\n| --- | ---: |\n| one | **0.5** |" in text
    assert '![a line from "3" to 4](images/line.png)' in text


def test_html_escapes_text_and_marks_bold_and_code() -> None:
    reader = Reader()
    reader.feed(html(blocks(), "A <title>"))
    assert "A <title>" in reader.text
    assert "Some bold text with code & <tags>." in reader.text
    assert {"strong", "code", "table", "th", "td", "figure"} <= set(reader.tags)
    assert "tags" not in reader.tags


def test_html_embeds_its_pictures_and_loads_nothing() -> None:
    reader = Reader()
    page = html(blocks(), "page")
    reader.feed(page)
    (image,) = reader.images
    assert str(image["src"]).startswith("data:image/png;base64,")
    assert image["alt"] == 'a line from "3" to 4'
    assert "script" not in reader.tags
    assert "link" not in reader.tags
    assert "default-src 'none'" in page


def test_a_written_page_has_its_pictures_beside_it(tmp_path: Path) -> None:
    write(blocks(), tmp_path, "results", "page")
    assert {p.name for p in tmp_path.iterdir()} == {"results.md", "results.html", "line.png", "line.svg"}
    assert "<svg" in (tmp_path / "line.svg").read_text()
