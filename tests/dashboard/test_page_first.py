"""What the page shows first: the gain over learning alone, per region, and who is in trouble; churn is folded away."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from alphaedge.monitoring.vitals import EdgeView, Link, Vitals
from tests.monitoring.synthetic import START, states

from .browser import until
from .serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
HARMFUL = "excluded: worse than alone by 40%"


def edge(region: str, gain: float | None = None, *, batches: int = 10, alive: bool = True, **links: Link) -> EdgeView:
    vitals = Vitals(score=0.7, recent=0.7, gain=gain, batches=batches, links=links)
    return EdgeView(region=region, alive=alive, vitals=vitals)


def shown(page: "Page", selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def test_the_gain_is_the_first_thing_on_the_page_and_that_of_the_median_edge(visit: Visit) -> None:
    with Served() as server:
        server.add(START, {"a": edge("DE", 0.01), "b": edge("FR", 0.02), "c": edge("ES", -0.3)})
        page = visit(server)
        assert page.locator("main > *").first.get_attribute("id") == "worth-panel"
        assert shown(page, "#worth-median") == ["+0.0100"], "one edge that lies does not move it far"
        assert shown(page, "#worth-better") == ["2 of 3 edges predict better than alone"]
        page.close()


def test_regions_are_compared_with_edges_counting_as_much_as_they_predict(visit: Visit) -> None:
    with Served() as server:
        state = {"a": edge("DE", 0.01, batches=30), "b": edge("DE", 0.05, batches=10), "c": edge("FR", -0.01)}
        server.add(START, {**state, "new": edge("ES", batches=0)})
        page = visit(server)
        assert shown(page, "#worth-regions .region") == ["DE", "ES", "FR"]
        assert shown(page, "#worth-regions .gain") == ["+0.0200", "\N{EN DASH}", "\N{MINUS SIGN}0.0100"]
        assert shown(page, "#worth-regions .quiet") == ["2 edges, 40 batches", "0 batches", "10 batches"]
        assert shown(page, "#worth-regions .worse .region") == ["FR"]
        bars = page.locator("#worth-regions .bar i")
        widths = [box["width"] for box in (bars.nth(i).bounding_box() for i in range(3)) if box]
        assert widths[0] > 1.9 * widths[-1] > 0, "a bar is as long as its gain"
        page.close()


def test_a_region_of_one_edge_is_called_what_its_data_call_it(visit: Visit) -> None:
    with Served() as server:
        vitals = Vitals(score=0.7, gain=0.02, batches=10, place="Köln Süd")
        server.add(START, {"koln-sud": EdgeView(region="koln-sud", alive=True, vitals=vitals), "b": edge("FR", 0.01)})
        page = visit(server)
        assert shown(page, "#worth-regions .region") == ["FR", "Köln Süd"]
        assert "koln-sud (Köln Süd)" in page.locator("#edges").inner_text()
        page.close()


def test_without_a_home_model_nothing_is_claimed(visit: Visit) -> None:
    with Served() as server:
        server.add(START, {"a": edge("DE")})
        page = visit(server)
        assert page.locator("#worth-panel .empty").is_visible()
        assert not page.locator("#worth-regions").is_visible()
        page.close()


def test_who_is_in_trouble_is_named_with_the_reason_and_can_be_selected(visit: Visit, complaints: list[str]) -> None:
    """A peer counts as harmful if most edges that know its model have excluded it, even if they may choose it again."""
    bad, refused, fine = Link(state=HARMFUL), Link(refused=2), Link(share=0.2)
    state = {
        "down": edge("DE", 0.01, alive=False),
        "hostile": edge("DE", 0.01),
        "disliked": edge("DE", 0.01),
        "broken": edge("DE", 0.01),
        "x": edge("DE", 0.01, hostile=bad, disliked=bad, broken=refused),
        "y": edge("DE", 0.01, hostile=bad, disliked=bad, broken=Link()),
        "z": edge("DE", 0.01, hostile=fine, disliked=fine),
        "w": edge("DE", 0.01, disliked=fine),
    }
    before = {name: edge("DE", 0.01) for name in state}
    with Served() as server:
        server.add(START, before)
        server.add(START + 1, state)
        server.add(START + 2, {**state, "x": edge("DE", 0.01, hostile=Link(), disliked=Link(), broken=refused)})
        page = visit(server)
        assert [line.replace("\n", " ") for line in shown(page, "#trouble li")] == [
            "broken 2 of its models were refused",
            "down does not answer",
            "hostile did harm: 2 of 3 edges that know its model excluded it",
        ]
        page.locator("#trouble button", has_text="hostile").click()
        until(page, "alphaedge.selected === 'hostile'")
        page.close()
    assert complaints == []


def test_a_healthy_fleet_says_that_nobody_is_in_trouble(visit: Visit) -> None:
    with Served() as server:
        server.add(
            START, {"a": edge("DE", 0.01, b=Link(behind=900)), "b": edge("FR", 0.01), "new": edge("ES", batches=0)}
        )
        page = visit(server)
        assert page.locator("#trouble-panel .empty").inner_text() == "Nobody"
        assert page.locator("#trouble-panel .empty").is_visible()
        page.close()


def test_changes_of_peers_are_a_number_until_somebody_asks(visit: Visit, served: Served) -> None:
    events = [event for frame in served.history.since(0.0) for event in frame.events]
    churn = [event for event in events if event.kind.startswith("neighbour") or event.kind == "exclusion_ended"]
    assert churn
    page = visit(served)
    told = page.locator(
        "#events .what"
    ).all_text_contents()  # entries far down are not laid out, and have no inner text
    assert not any("now learns from" in line or "no longer" in line or "may choose" in line for line in told)
    firsts = {(e.kind, e.edge, e.peer) for e in events if e.kind in ("peer_excluded", "model_refused")}
    others = [e for e in events if e.kind in ("joined", "down", "up", "schema_differs", "schema_matches")]
    assert len(told) == len(firsts) + len(others), "of repeated exclusions, the first is told"
    assert shown(page, "#changes") == [f"{len(events) - len(told)} changes of peers"]
    page.locator("#churn").check()
    until(page, f"document.querySelectorAll('#events li').length === {len(events)}")


def test_the_gain_can_be_seen_over_time(visit: Visit, served: Served) -> None:
    page = visit(served)
    before = page.evaluate("document.getElementById('scores').toDataURL()")
    page.locator("label[for=metric-gain]").click()
    until(page, f"document.getElementById('scores').toDataURL() !== {before!r}")


def test_many_regions_scroll_inside_their_panel(visit: Visit) -> None:
    with Served() as server:
        server.add(START, {f"e{n}": edge(f"R{n}", 0.01 * n) for n in range(40)})
        for time, state in states(6, 2, start=START + 1):
            server.add(time, state)
        page = visit(server)
        box = page.locator("#worth-panel").bounding_box()
        assert box is not None
        assert box["height"] < 500
        page.close()
