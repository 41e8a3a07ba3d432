"""What one live aggregation visits is about what the page on architecture says."""

import re

import pytest

from tools.reference.pages import DOCS
from tools.walk import END, START, walk


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_aggregation_visits_what_the_page_says() -> None:
    visits = walk(START, END)
    functions, files = {function for _, function in visits}, {file for file, _ in visits}
    assert {
        "LearningLoop.finish_round",
        "Learner.mix",
        "mix",
        "Learned.weigh",
        "Greedy.choose",
        "hand_over",
    } <= functions
    text = " ".join((DOCS / "architecture.md").read_text(encoding="utf-8").split())
    stated = re.search(r"visits: about (\d+) functions in (\d+) files", text)
    assert stated is not None
    assert len(visits) == pytest.approx(int(stated[1]), rel=0.1)
    assert len(files) == pytest.approx(int(stated[2]), rel=0.1)
