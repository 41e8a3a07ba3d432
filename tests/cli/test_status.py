"""``alphaedge status`` tells who takes no part in a mix, and why, in the words of the edge that decided it."""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals
from tests.dashboard.serving import Served

HARMFUL = "excluded: worse than alone by 40%"


def edge(**states: str) -> EdgeView:
    """An edge that pulls from the peers that it has not excluded."""
    links = {peer: Link(share=0.3 if state == "mixed" else 0.0, state=state) for peer, state in states.items()}
    neighbours = tuple(peer for peer, state in states.items() if not state.startswith(("excluded", "former")))
    return EdgeView(region="DE", alive=True, vitals=Vitals(batches=5, neighbours=neighbours, links=links))


def status(*words: str, **fleet: EdgeView) -> tuple[int, str]:
    with Served() as server:
        server.add(1.0, fleet)
        done = CliRunner().invoke(app, ["status", server.url, *words])
    return done.exit_code, done.output


def test_peers_that_take_no_part_are_listed_with_the_reason() -> None:
    code, text = status(berlin=edge(madrid="mixed", oslo=HARMFUL), madrid=edge(berlin="mixed"), oslo=edge())
    assert code == 0, "an exclusion is the defence at work, not a fault of the fleet"
    told = text.partition("peers that take no part")[2]
    (line,) = [line for line in told.splitlines() if "oslo" in line]
    assert line.split() == ["berlin", "oslo", *HARMFUL.split()]
    assert "madrid" not in told


@pytest.mark.parametrize("state", ["down", "other schema"])
def test_a_neighbour_that_can_not_take_part_is_listed_and_a_former_one_is_not(state: str) -> None:
    _, text = status(berlin=edge(madrid="mixed", oslo=state), madrid=edge(berlin="former"), oslo=edge())
    told = text.partition("peers that take no part")[2]
    assert [line.split() for line in told.splitlines() if "berlin" in line] == [["berlin", "oslo", *state.split()]]


def test_nothing_is_listed_while_all_take_part() -> None:
    _, text = status(berlin=edge(madrid="mixed"), madrid=edge(berlin="faded"))
    assert "no part" not in text


def test_the_place_of_an_edge_is_shown_as_the_data_write_it_and_never_as_markup() -> None:
    places = {"malmo": "Malmö", "oslo": "Oslo", "red": "[red]Łódź[/]"}
    fleet = {name: EdgeView(region="EU", alive=True, vitals=Vitals(place=place)) for name, place in places.items()}
    _, text = status(**fleet)
    assert "(Malmö)" in text
    assert "[red]" in text
    assert "Oslo" not in text, "its name says so already"


def test_an_edge_that_is_starting_is_not_in_trouble() -> None:
    begun = EdgeView(region="DE", alive=False, starting=True, vitals=edge(madrid="down").vitals)
    code, text = status(berlin=begun)
    assert code == 0
    assert "starting" in text
    assert "no part" not in text


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_names_and_scores_are_never_cut_however_narrow_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    seen = Vitals(score=0.71234, gain=0.0123, recent=0.7, batches=1_234_567, aggregations=246_913, requests=9, p99=14.2)
    links = {"northampton": Link(share=0.25, bytes=123_456_789, state="mixed")}
    vitals = msgspec.structs.replace(seen, links=links, neighbours=("northampton",))
    _, text = status(southampton=EdgeView(region="England", alive=True, vitals=vitals), northampton=edge())
    table, rows = text.splitlines(), [line for line in text.splitlines() if line.lstrip().startswith("southampton")]
    assert max(map(len, table)) <= width
    assert len(rows) == 1
    assert "0.7123" in rows[0]
    assert "+0.0123" in rows[0]
    assert "…" not in text
    assert ("1,234,567" in rows[0]) == (width > 80)


def test_json_has_the_states_of_all_peers() -> None:
    _, text = status("--json", berlin=edge(madrid="mixed", oslo=HARMFUL), madrid=edge(berlin="former"), oslo=edge())
    found = {one["edge"]: one["peer_states"] for one in json.loads(text)["edges"]}
    assert found == {"berlin": {"madrid": "mixed", "oslo": HARMFUL}, "madrid": {"berlin": "former"}, "oslo": {}}
