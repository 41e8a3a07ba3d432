"""Edges find each other from one seed, notice which are down, and meet again after a partition. Pure: no I/O."""

from pathlib import Path

import pytest

from alphaedge.edge.directory import membership as membership_module
from alphaedge.edge.directory.exchange import Delta, Digest
from alphaedge.edge.directory.membership import Membership, count_refusal
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.errors import AnnouncementError

from ..directories import announcement, our_credentials
from .network import Network, connected, take


def test_every_edge_finds_every_other_from_one_seed() -> None:
    network = Network(12)
    assert network.rounds_until({frozenset(network.edges)}) <= 10


def test_an_edge_that_crashes_is_missed_and_may_come_back() -> None:
    network, everyone = connected(8)
    network.down.add("e3")
    assert 4 <= network.rounds_until({everyone - {"e3"}}) <= 12, "not while it might only be slow"
    network.start("e3")
    assert network.rounds_until({everyone}) <= 10


def test_the_seed_may_go_once_all_edges_know_each_other() -> None:
    network, everyone = connected(6)
    network.down.add("e0")
    network.rounds_until({everyone - {"e0"}})
    network.run_rounds(20)
    assert network.views() == {everyone - {"e0"}}


def test_the_halves_of_a_partition_go_on_and_join_again() -> None:
    network, everyone = connected(10)
    north = {f"e{number}" for number in range(4)}
    network.halves = [north, set(everyone) - north]
    network.rounds_until({frozenset(north), everyone - north})
    network.run_rounds(30)
    network.halves = []
    assert network.rounds_until({everyone}) <= 15


def test_an_edge_that_leaves_for_good_is_gone_within_three_rounds() -> None:
    network, everyone = connected(6)
    network.announce("e2", version=9, gone=True)
    network.run_rounds(3)
    assert {network.view(edge) for edge in network.edges if edge != "e2"} == {everyone - {"e2"}}


def test_the_newest_announcement_wins_and_an_old_one_that_is_replayed_changes_nothing() -> None:
    network, _ = connected(5)
    old = network.edges["e1"].membership.own.signed
    network.announce("e1", version=2, schema="new")
    network.run_rounds(5)
    for exchange in network.edges.values():
        assert exchange.membership.accept(old, network.now) is None
        assert exchange.membership.alive(network.now)["e1"].schema == "new"


def test_no_edge_can_end_or_announce_another() -> None:
    """A heartbeat that nobody has sent would make the true ones look old, if it could be signed."""
    network, everyone = connected(4)
    for name, exchange in network.edges.items():
        ahead = Heartbeat(2, 10**9, 0, b"")  # of an incarnation that nobody has announced
        digest = Digest({"e1": (2, 10**9, ahead), name: (2, 1, ahead)})
        take(exchange.read_delta("liar", Delta([], digest), network.now))
    network.run_rounds(20)
    assert network.views() == {everyone}
    assert {exchange.membership.own.announcement.incarnation for exchange in network.edges.values()} == {1}


def test_a_forged_heartbeat_is_refused_and_changes_nothing(certs: Path) -> None:
    """If it were a little ahead, it would make the true ones look old, and its edge dead."""
    me = Membership("berlin", our_credentials(certs, "berlin"), lambda: 1e9)
    bonn, liar = our_credentials(certs, "bonn"), our_credentials(certs, "liar")
    me.accept(bonn.sign(announcement("bonn", 1)), 1.0)
    true = bonn.sign_heartbeat(30, 0)
    for false in (
        Heartbeat(1, 30, 0, b""),
        liar.sign_heartbeat(30, 0),
        Heartbeat(1, 31, 0, true.signature),
        Heartbeat(1, 30, 1, true.signature),
    ):
        with pytest.raises(AnnouncementError, match="a heartbeat of bonn has a wrong signature"):
            me.accept_heartbeat("bonn", false, 2.0)
    for second in range(1, 20):
        me.accept_heartbeat("bonn", bonn.sign_heartbeat(second, 0), float(second))
        assert "bonn" in me.alive(float(second))
    heartbeat = me.entries["bonn"].heartbeat
    assert heartbeat is not None
    assert heartbeat.count == 19


def test_reasons_of_refusals_stay_few_and_short() -> None:
    refusals: dict[str, int] = {}
    for number in range(500):
        count_refusal(refusals, f"{number} " + "x" * 10_000)
    assert len(refusals) <= 101
    assert max(map(len, refusals)) <= 200
    assert sum(refusals.values()) == 500


def test_an_edge_that_was_down_for_very_long_is_forgotten() -> None:
    network, _ = connected(4)
    network.down.add("e3")
    network.run_rounds(10)
    me = network.edges["e1"].membership
    me.forget(network.now)
    assert "e3" in me.entries
    me.forget_after = 5.0
    me.forget(network.now)
    assert set(me.entries) == {"e0", "e1", "e2"}


def test_the_membership_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = connected(4)
    monkeypatch.setattr(membership_module, "MAX_EDGES", 4)
    stranger = Network(6).edges["e5"].membership.own.signed
    with pytest.raises(AnnouncementError, match="the directory is full; allowed: at most 4 edges"):
        network.edges["e1"].membership.accept(stranger, network.now)
    network.announce("e2", version=2)
    network.run_rounds(5)
    assert network.edges["e1"].membership.alive(network.now)["e2"].version == 2, "known edges go on"
