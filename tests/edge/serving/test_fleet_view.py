"""The fleet as an edge shows it: every edge's vitals, kept through a restart, without a secret."""

import json
import math
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alphaedge.edge.serving.fleet_view import START_GRACE_SECONDS, fleet_state
from alphaedge.edge.store.peer_status import PeerStatus, peer_state
from alphaedge.edge.store.status import LearnerStatus, ServerStatus
from alphaedge.edge.store.vitals import make_link, make_vitals
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement, decode_announcement
from alphaedge.errors import AnnouncementError
from alphaedge.monitoring.frames import Fleet, latest_state
from alphaedge.monitoring.health import edge_health, fleet_health, is_healthy
from alphaedge.monitoring.vitals import EdgeView, Link, Vitals, is_plausible, with_absent

from ..processes import Edge, fleet_of, teach, wait_for

IMPOSSIBLE = [math.nan, math.inf, -math.inf, 1e300]  # the sum of two of the last is infinite
NUMBERS = ["score", "recent", "gain", "recent_gain", "p50", "p99", "own_share", "home_share"]


def fleet(edge: Edge, **headers: str) -> Fleet:
    request = urllib.request.Request(f"{edge.url}/fleet", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return msgspec.json.decode(answer.read(), type=Fleet)


def alphaedge(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "alphaedge", *words], capture_output=True, text=True)


def test_vitals_come_from_the_learner_and_the_server() -> None:
    peer = PeerStatus(share=0.25, publication=9, held=7, pulls=3, dense_bytes=100, row_bytes=20, request_bytes=3)
    status = LearnerStatus(
        edge="a", region="DE", schema="s", started=0.0, scores=2, score=0.7, batches=8, peers={"b": peer}
    )
    found = make_vitals(status, ["b", "c"], ServerStatus(requests=5, p50=1.0, p99=2.0, pending=4))
    assert found.links == {"b": Link(share=0.25, behind=2, bytes=123, state="down")}
    assert found.neighbours == ("b", "c")
    assert (found.score, found.batches, found.requests, found.p99, found.pending) == (0.7, 8, 5, 2.0, 4)
    assert make_vitals(LearnerStatus(edge="a", region="DE", schema="s", started=0.0), [], None).score is None


@pytest.mark.parametrize(
    ("peer", "state"),
    [
        (PeerStatus(), "down"),
        (PeerStatus(excluded="no model for 3 rounds", neighbour=True), "down"),
        (PeerStatus(alive=True, mixes=False), "other schema"),
        (PeerStatus(alive=True, excluded="worse than alone by 40%"), "excluded: worse than alone by 40%"),
        (PeerStatus(alive=True, neighbour=True, excluded="no model for 3 rounds"), "excluded: no model for 3 rounds"),
        (PeerStatus(alive=True, pulls=3), "former"),
        (PeerStatus(alive=True, neighbour=True), "waiting"),
        (PeerStatus(alive=True, neighbour=True, pulls=3, share=0.019), "faded"),
        (PeerStatus(alive=True, neighbour=True, pulls=3, share=0.02), "mixed"),
    ],
)
def test_the_state_of_a_peer_is_told_in_words_that_may_be_announced(peer: PeerStatus, state: str) -> None:
    assert peer_state(peer) == state
    announcement = Announcement(
        edge="a", region="DE", address="a:1", schema="s", version=1, vitals=Vitals(links={"b": make_link(peer)})
    )
    read = decode_announcement(SignedAnnouncement(msgspec.msgpack.encode(announcement), b"", b""))
    assert read.vitals.links["b"].state == state


def test_a_peer_that_was_excluded_before_a_restart_is_still_reported() -> None:
    peers = {"b": PeerStatus(alive=True, excluded="worse than alone by 12%"), "c": PeerStatus(alive=True)}
    status = LearnerStatus(edge="a", region="DE", schema="s", started=0.0, peers=peers)
    links = make_vitals(status, [], None).links
    assert {name: link.excluded for name, link in links.items()} == {"b": "worse than alone by 12%"}


@pytest.mark.parametrize("score", IMPOSSIBLE)
def test_a_score_that_may_not_be_announced_is_left_out(score: float) -> None:
    """A model that has diverged must not keep its edge from announcing itself."""
    status = LearnerStatus(edge="a", region="DE", schema="s", started=0.0, scores=1, score=score, recent=score)
    made = make_vitals(status, [], ServerStatus(p50=score))
    assert (made.score, made.recent, made.p50) == (None, None, None)
    assert is_plausible(made)


def test_an_edge_that_is_gone_is_still_shown_as_down() -> None:
    there, gone = EdgeView(region="DE", alive=True), EdgeView(region="FR", alive=True)
    found = with_absent({"a": there, "b": gone}, {"a": there})
    assert found["a"].alive
    assert not found["b"].alive


def test_edges_that_one_has_not_found_right_after_its_start_are_starting_and_later_down() -> None:
    me = EdgeView(region="DE", alive=True, vitals=Vitals(batches=3, neighbours=("paris",)))
    seen = LearnerStatus(edge="berlin", region="DE", schema="s", started=100.0, written=100.0, fleet={"berlin": me})
    before = {"berlin": me, "paris": EdgeView(region="FR", alive=False)}  # both were stopped

    def states(known: LearnerStatus, now: float) -> dict[str, str]:
        found = fleet_health(fleet_state(msgspec.structs.replace(known, written=now), before, now))
        return {one.edge: one.state for one in found}

    soon, later = 100.0 + START_GRACE_SECONDS, 101.0 + START_GRACE_SECONDS
    assert states(seen, soon) == {"berlin": "starting", "paris": "starting"}
    assert states(seen, later) == {"berlin": "alone", "paris": "down"}
    whole = msgspec.structs.replace(seen, fleet={"berlin": me, "paris": me})
    assert states(whole, soon) == {"berlin": "ok", "paris": "ok"}


@pytest.mark.parametrize(
    "vitals",
    [
        Vitals(place="Köln\nSüd"),
        Vitals(place="x" * 81),
        Vitals(links={"<script>": Link()}),
        Vitals(neighbours=("a b",)),
        Vitals(links={f"e{number}": Link() for number in range(1001)}),
        Vitals(links={"b": Link(state="<script>")}),
        Vitals(links={"b": Link(state="[red]")}),
        Vitals(links={"b": Link(state="x" * 61)}),
        Vitals(links={"b": Link(state="")}),
        *(msgspec.structs.replace(Vitals(), **{name: bad}) for name in NUMBERS for bad in IMPOSSIBLE),
        *(Vitals(links={"b": Link(share=bad)}) for bad in IMPOSSIBLE),
        *(Vitals(links={"b": Link(pulled=bad)}) for bad in IMPOSSIBLE),
    ],
)
def test_an_announcement_with_impossible_vitals_is_refused(vitals: Vitals) -> None:
    announcement = Announcement(edge="a", region="DE", address="a:1", schema="s", version=1, vitals=vitals)
    with pytest.raises(AnnouncementError, match="too many links or with invalid numbers, names"):
        decode_announcement(SignedAnnouncement(msgspec.msgpack.encode(announcement), b"", b""))


def test_health_names_the_edges_that_need_attention() -> None:
    def one(**known: Any) -> EdgeView:
        return EdgeView(
            region="DE",
            alive=known.pop("alive", True),
            same_schema=known.pop("same_schema", True),
            vitals=Vitals(**known),
        )

    links = {"fine": Link(share=0.5, behind=9)}
    whole = {
        "fine": one(batches=1, neighbours=("late",), links={"late": Link(share=0.4)}),
        "new": one(),
        "dead": one(alive=False, batches=3),
        "odd": one(same_schema=False, batches=3),
        "alone": one(batches=3, neighbours=("dead",)),
        "stale": one(batches=3, neighbours=("fine",), missed_rounds=3),
        "late": one(batches=3, neighbours=("fine",), missed_rounds=2),
        "quiet": one(batches=1, neighbours=("fine",), links=links),
    }
    states = {c.edge: c.state for c in fleet_health(whole)}
    assert states == {
        "fine": "ok",
        "new": "waiting",
        "dead": "down",
        "odd": "other schema",
        "alone": "alone",
        "stale": "stale",
        "late": "ok",
        "quiet": "ok",
    }
    assert not is_healthy(fleet_health(whole))
    assert is_healthy([edge_health("fine", whole["fine"], whole), edge_health("new", whole["new"], whole)])
    assert not is_healthy([])


def test_a_fleet_with_uneven_traffic_is_healthy() -> None:
    """Between two rounds of a quiet region, busy ones publish hundreds of times; some regions have no traffic yet."""
    far_behind = {"busy": Link(share=0.4, behind=500)}
    whole = {
        "busy": EdgeView(region="DE", alive=True, vitals=Vitals(batches=9000, neighbours=("quiet",))),
        "quiet": EdgeView(region="FR", alive=True, vitals=Vitals(batches=5, neighbours=("busy",), links=far_behind)),
        "silent": EdgeView(region="ES", alive=True, vitals=Vitals(neighbours=("busy",), links=far_behind)),
    }
    assert {one.edge: one.state for one in fleet_health(whole)} == {"busy": "ok", "quiet": "ok", "silent": "waiting"}
    assert is_healthy(fleet_health(whole))


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Edge]]:
    with fleet_of(tmp_path_factory.mktemp("fleet"), [("berlin", "DE"), ("paris", "FR")]) as made:
        for number, edge in enumerate(made):
            teach(edge, 2, seed=number)
        yield made


def test_every_edge_shows_the_whole_fleet(edges: list[Edge]) -> None:
    for edge in edges:
        wait_for(lambda: len(learned(edge)) == 2, "both edges to be shown with what they have learned")  # noqa: B023
        found = latest_state(fleet(edge).frames)
        assert {name: seen.region for name, seen in found.items()} == {"berlin": "DE", "paris": "FR"}
        assert all(seen.alive and seen.same_schema for seen in found.values())


def learned(edge: Edge) -> list[str]:
    found = latest_state(fleet(edge).frames)
    return [name for name, seen in found.items() if seen.vitals.aggregations >= 2 and seen.vitals.requests]


def test_nothing_about_a_user_is_shown(edges: list[Edge]) -> None:
    with urllib.request.urlopen(f"{edges[0].url}/fleet", timeout=10) as answer:
        text = answer.read().decode()
    assert "berlin" in text
    for secret in ("u1", "127.0.0.1", "secret", "item", "user"):
        assert f'"{secret}' not in text


def test_frames_are_streamed_as_they_come(edges: list[Edge]) -> None:
    last = fleet(edges[0]).frames[-1].time
    with urllib.request.urlopen(f"{edges[0].url}/fleet/stream?after={last}", timeout=60) as stream:
        teach(edges[0], 1, seed=9)
        while not (line := stream.readline()).startswith(b"data: "):
            assert line, "the stream has ended"
        frame = json.loads(line[6:])
    assert frame["time"] > last
    assert frame["edges"]


def test_status_prints_the_fleet_and_exits_with_0(edges: list[Edge]) -> None:
    wait_for(lambda: len(learned(edges[0])) == 2, "both edges to be shown with what they have learned")
    done = alphaedge("status", edges[0].url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "berlin" in done.stdout
    assert "paris" in done.stdout
    found = json.loads(alphaedge("status", edges[0].url, "--json").stdout)
    assert found["healthy"] is True
    assert {e["edge"]: e["state"] for e in found["edges"]} == {"berlin": "ok", "paris": "ok"}


def test_a_server_with_an_open_stream_stops_and_keeps_its_history(edges: list[Edge]) -> None:
    berlin, paris = edges
    wait_for(lambda: happened(paris), "something to happen")
    before = happened(paris)
    with urllib.request.urlopen(f"{paris.url}/fleet/stream", timeout=60) as stream:
        assert stream.readline()
        assert paris.stop() == 0
    wait_for(lambda: not latest_state(fleet(berlin).frames)["paris"].alive, "berlin to see paris down")
    done = alphaedge("status", berlin.url)
    assert done.returncode == 1
    assert "down" in done.stdout
    paris.start()
    assert happened(paris) >= before, "what happened before the restart"
    wait_for(lambda: latest_state(fleet(berlin).frames)["paris"].alive, "berlin to see paris again")
    assert happened(berlin) >= {("down", "paris"), ("up", "paris")}


def happened(edge: Edge) -> set[tuple[str, str]]:
    """The events that an edge shows: their kinds, and whom they are about."""
    return {(event.kind, event.edge) for frame in fleet(edge).frames for event in frame.events}


def test_status_without_an_edge_exits_with_2() -> None:
    done = alphaedge("status", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert "no answer" in done.stderr
    wrong = alphaedge("status", "berlin")
    assert wrong.returncode == 2
    assert "http://host:port" in wrong.stderr


def test_the_fleet_needs_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    edge = Edge(tmp_path, serve={"port": 0, "token": "token"})
    try:
        edge.start()
        assert edge.post("/fleet", b"")["status"] == 405
        for path in ("/fleet", "/fleet/stream"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(edge.url + path, timeout=10)
        assert urllib.request.urlopen(f"{edge.url}/dashboard", timeout=10).status == 200, "the page itself is empty"
        assert fleet(edge, Authorization="Bearer s3cret").edge == "berlin"
        assert alphaedge("status", edge.url).returncode == 2
        assert alphaedge("status", edge.url, "--token-file", str(tmp_path / "token")).returncode == 0
    finally:
        edge.end()
