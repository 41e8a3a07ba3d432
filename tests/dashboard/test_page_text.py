"""The text on the page: the words of ``alphaedge status``, and an explanation for each column."""

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

import msgspec

from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus
from alphaedge.edge.store.vitals import make_vitals
from alphaedge.monitoring.frames import EventKind, FleetEvent
from alphaedge.monitoring.health import fleet_health
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals
from tests.monitoring.synthetic import START

from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]


def edge(*neighbours: str, missed: int = 0, alive: bool = True, same_schema: bool = True, batches: int = 1) -> EdgeView:
    links = {peer: Link(share=0.1, behind=9) for peer in neighbours}
    vitals = Vitals(batches=batches, neighbours=neighbours, links=links, missed_rounds=missed)
    return EdgeView(region="DE", alive=alive, same_schema=same_schema, vitals=vitals)


def test_states_are_those_of_the_status_command(visit: Visit) -> None:
    state = {
        "down": edge(alive=False),
        "other": edge("fine", same_schema=False),
        "waiting": edge(batches=0),
        "alone": edge("down", "unknown"),
        "late": edge("fine", missed=2),
        "stale": edge("fine", "waiting", missed=3),
        "fine": edge("late", "down"),
        "first": edge(),
    }
    with Served() as server:
        server.add(START, state)
        page = visit(server)
        names = page.locator("#edges tbody th").all_inner_texts()
        states = page.locator("#edges tbody td:nth-child(3)").all_inner_texts()
        found = dict(zip(names, states, strict=True))
        assert found == {one.edge: one.state for one in fleet_health(state)}
        assert set(found.values()) == {"ok", "waiting", "alone", "stale", "other schema", "down"}
        assert page.locator("#edges td.bad").count() == 4
        page.close()


def test_the_page_shows_the_peers_states_in_the_words_of_the_edge_that_sees_them(
    visit: Visit, complaints: list[str]
) -> None:
    """From the learner's status to the table, the graph's description, the list of events and the sum above them."""
    peers = {
        "lyon": PeerStatus(alive=True, neighbour=True, pulls=3, share=0.3),
        "oslo": PeerStatus(alive=True, excluded="worse than alone by 40%"),
        "rome": PeerStatus(alive=True, neighbour=True, excluded="no model for 3 rounds"),
        "nice": PeerStatus(neighbour=True, pulls=1),
    }

    def berlin(**peers: PeerStatus) -> EdgeView:
        status = LearnerStatus(edge="berlin", region="DE", schema="s", started=0.0, batches=9, peers=peers)
        chosen = [name for name, peer in peers.items() if peer.neighbour]
        return EdgeView(region="DE", alive=True, vitals=make_vitals(status, chosen, None))

    with Served() as server:
        server.add(START, {"berlin": berlin(), **{name: edge(alive=name != "nice") for name in peers}})
        server.add(START + 1, {"berlin": berlin(**peers)})
        page = visit(server)
        rows = page.locator("#links tbody tr").all()
        found = {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1) for row in rows}
        assert {peer: cell.inner_text() for peer, cell in found.items()} == {
            "lyon": "mixed",
            "oslo": "excluded: worse than alone by 40%",
            "rome": "excluded: no model for 3 rounds",
            "nice": "down",
        }
        assert page.locator("#links td.bad").all_inner_texts() == [cell.inner_text() for cell in found.values()][1:]
        assert page.locator("#total-excluded").inner_text() == "2"
        events = page.locator("#events .alarm .what").all_text_contents()
        assert sorted(events) == [
            "berlin excluded oslo: worse than alone by 40%",
            "berlin excluded rome: no model for 3 rounds",
        ]
        page.locator("#edge").select_option("oslo")
        page.locator("#spoken", has_text="berlin has it excluded: worse than alone by 40%").wait_for(state="attached")
        page.close()
    assert complaints == []


def test_every_column_is_explained_at_its_heading_and_under_the_table(visit: Visit, served: Served) -> None:
    page = visit(served)
    for table in ("edges", "links"):
        headings = page.locator(f"#{table} thead button")
        titles = {button.inner_text(): button.get_attribute("title") for button in headings.all()}
        explained = {word: title for word, title in titles.items() if title}
        assert titles.keys() - explained.keys() <= {"Edge", "Region"}
        page.locator(f"#{table}-panel summary").click()
        words = page.locator(f"#{table}-glossary dt").all_inner_texts()
        meanings = page.locator(f"#{table}-glossary dd").all_inner_texts()
        assert dict(zip(words, meanings, strict=True)) == explained
    assert "never mixed" in page.locator("#home-note").inner_text()


def test_events_are_described_as_the_terminal_does(visit: Visit, served: Served) -> None:
    page = visit(served)
    for kind in get_args(EventKind):
        event = FleetEvent(time=START, edge="berlin", kind=kind, peer="paris", reason="no model for 3 rounds")
        text = page.evaluate(
            "async (event) => (await import('/dashboard/format.js')).describeEvent(event)",
            msgspec.to_builtins(event),
        )
        assert text == event.describe()
