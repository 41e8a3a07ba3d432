"""Who is alive, and what is newer, depends on counters and never on the clocks of others. Pure: no I/O."""

import copy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaedge.edge.directory.clock_skew import SkewAlarm, own_skew
from alphaedge.edge.directory.exchange import Digest
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.credentials import InsecureCredentials
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import MAX_COUNT, MAX_INCARNATION, Incarnation
from alphaedge.errors import AnnouncementError

from ..directories import announcement
from .network import Network, connected, take

TWO_HOURS = 7200.0


@pytest.mark.parametrize("jump", [TWO_HOURS, -TWO_HOURS])
def test_a_clock_that_jumps_makes_nobody_look_down_not_even_after_a_restart(jump: float) -> None:
    network, everyone = connected(5)
    network.clocks["e2"] = jump
    for _ in range(10):
        network.run_round()
        assert network.views() == {everyone}
    network.clocks["e2"] = 0.0
    network.start("e2")
    for number in range(20):
        network.run_round()
        others = {network.view(edge) for edge in network.edges if edge != "e2"}
        assert others == {everyone}, f"{number} rounds after the correction"
    assert network.views() == {everyone}


CLOCKS = st.dictionaries(st.sampled_from(["e0", "e1", "e2"]), st.floats(-1e12, 1e12), max_size=3)


@settings(max_examples=20, deadline=None)
@given(st.lists(CLOCKS, min_size=1, max_size=12))
def test_no_sequence_of_clocks_changes_who_is_alive(jumps: list[dict[str, float]]) -> None:
    network, everyone = connected(3)
    for clocks in jumps:
        network.clocks.update(clocks)
        network.run_round()
        assert network.views() == {everyone}


def test_an_edge_that_has_lost_its_disk_goes_above_its_old_incarnation() -> None:
    network, everyone = connected(5)
    for _ in range(7):
        network.start("e4")
        network.run_rounds(2)
    network.rounds_until({everyone})
    old = network.incarnations["e4"].number
    network.down.add("e4")
    network.rounds_until({everyone - {"e4"}})
    network.incarnations["e4"] = Incarnation()
    del network.edges["e4"]
    network.start("e4")
    assert network.incarnations["e4"].number < old
    assert network.rounds_until({everyone}) <= 10
    assert network.incarnations["e4"].number == old + 1


def test_an_edge_that_repeats_an_incarnation_goes_above_it() -> None:
    """Its disk was full, so that the number of the last run was not stored."""
    network, everyone = connected(4)
    network.run_rounds(20)
    network.incarnations["e3"] = Incarnation()
    network.start("e3", version=1)
    assert network.incarnations["e3"].number == 2, "started once, without a file"
    network.incarnations["e3"].number = 1
    network.edges["e3"].membership.entries.clear()
    network.announce("e3", version=1)
    network.run_rounds(10)
    assert network.views() == {everyone}
    assert network.incarnations["e3"].number == 2


def test_two_edges_of_one_name_do_not_shut_each_other_out_for_good() -> None:
    network, everyone = connected(4)
    twin = Network(4).edges["e3"]
    twin.membership.entries = {"e3": twin.membership.own}
    for _ in range(5):
        network.run_round()
        delta = network.edges["e0"].delta(twin.digest())
        take(twin.read_delta("e0", delta, network.now))
        take(network.edges["e0"].read_delta("e3", twin.delta(delta.digest), network.now))
    assert network.rounds_until({everyone}) <= 10


def encode(edge: str, **changes: object) -> SignedAnnouncement:
    """Encode an announcement with values that no edge would sign."""
    plain = msgspec.to_builtins(announcement(edge, 1, address=f"{edge}:1"))
    return SignedAnnouncement(msgspec.msgpack.encode(plain | changes), b"", b"")


@pytest.mark.parametrize("field", ["incarnation", "version"])
@pytest.mark.parametrize("number", [-1, 2**53, 2**63 - 1, 2**64 - 1])
def test_an_implausible_incarnation_or_version_is_refused(field: str, number: int) -> None:
    network, everyone = connected(3)
    me = network.edges["e0"].membership
    for edge in ("e1", "new"):
        with pytest.raises(AnnouncementError, match=rf"can't be decoded .*{field}"):
            me.accept(encode(edge, **{field: number}), network.now)
    network.run_rounds(10)
    assert network.views() == {everyone}, "who tries it is not shut out"


def test_a_member_that_gives_itself_the_highest_incarnation_goes_on() -> None:
    network, everyone = connected(4)
    network.incarnations["e3"].number = MAX_INCARNATION
    network.announce("e3")
    network.run_rounds(5)
    assert network.views() == {everyone}
    for _ in range(3):
        network.start("e3", publication=int(network.now))
        network.run_rounds(12)
        assert network.views() == {everyone}
        assert network.incarnations["e3"].number == MAX_INCARNATION


def test_the_highest_numbers_of_all_overflow_nothing() -> None:
    network, everyone = connected(3)
    network.incarnations["e2"].number = MAX_INCARNATION
    network.announce("e2", version=MAX_COUNT)
    own = network.edges["e2"].membership.own
    own.heartbeat = Heartbeat(MAX_INCARNATION, MAX_COUNT - 1, 0, b"")
    network.run_rounds(20)
    assert everyone - {"e2"} <= network.view("e0"), "nobody else suffers"
    network.announce("e2")
    network.run_rounds(3)
    assert network.views() <= {everyone, everyone - {"e2"}}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30)), max_size=60))
def test_an_edge_is_heard_only_when_its_counter_grows(heartbeats: list[tuple[int, int]]) -> None:
    me = Membership("me", InsecureCredentials("me", "DE"), lambda: 0.0)
    me.accept(encode("it", incarnation=2), 0.0)
    best = 0
    for now, (incarnation, count) in enumerate(heartbeats, 1):
        before = me.entries["it"].heard
        me.accept_heartbeat("it", Heartbeat(incarnation, count, 0, b""), float(now))
        is_news = incarnation == 2 and count > best
        assert me.entries["it"].heard == (now if is_news else before)
        best = count if is_news else best


def test_replaying_all_that_a_dead_edge_has_said_does_not_keep_it_alive() -> None:
    network, everyone = connected(4)
    network.run_rounds(30)
    network.down.add("e3")
    record = copy.deepcopy(network.traffic)
    network.rounds_until({everyone - {"e3"}})
    for _ in range(3):
        for delta in record:
            network.now += 0.1
            for edge in ("e0", "e1", "e2"):
                take(network.edges[edge].read_delta("liar", delta, network.now))
            assert all("e3" not in network.view(edge) for edge in ("e0", "e1", "e2"))
        network.run_round()


def test_a_hoard_of_heartbeats_lasts_only_as_long_as_there_are_new_ones() -> None:
    me = Membership("me", InsecureCredentials("me", "DE"), lambda: 0.0)
    me.accept(encode("it", incarnation=1), 0.0)
    for second in range(1, 21):
        me.accept_heartbeat("it", Heartbeat(1, second, 0, b""), float(second))
        assert "it" in me.alive(float(second))
    for second in range(21, 60):
        me.accept_heartbeat("it", Heartbeat(1, 1 + second % 20, 0, b""), float(second))
    assert "it" not in me.alive(26.0)


def test_skew_is_measured_and_who_is_off_is_told_by_the_majority() -> None:
    network, _ = connected(5)
    network.clocks["e2"] = TWO_HOURS
    network.run_rounds(12)
    for edge, exchange in network.edges.items():
        skews = exchange.membership.skews(network.now)
        expected = TWO_HOURS if edge == "e2" else 0.0
        assert own_skew(skews) == pytest.approx(expected, abs=5.0)
        events = list(SkewAlarm(edge).check(skews))
        assert [(event, fields["of"]) for event, fields in events] == [("clock_is_off", "e2")]
        assert events[0][1]["seconds"] == pytest.approx(TWO_HOURS, abs=5.0)


def test_a_clock_that_is_off_is_reported_once_and_so_is_its_correction() -> None:
    alarm = SkewAlarm("me")
    near = {"bonn": 0.1, "kiel": -0.2}
    assert not list(alarm.check(near))
    for _ in range(3):
        found = [event for event, _ in alarm.check({**near, "oslo": -TWO_HOURS})]
        alarm_events = found or ["nothing"]
        assert alarm_events in (["clock_is_off"], ["nothing"])
    assert [event for event, _ in alarm.check({**near, "oslo": -1.0})] == ["clock_is_right_again"]


def test_a_digest_tells_a_heartbeat_as_it_was_signed() -> None:
    heartbeat = Heartbeat(3, 4, 1_700_000_000_000, b"x")
    digest = Digest({"bonn": (3, 1, heartbeat), "new": (0, 1, None)}, 7)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(digest), type=Digest) == digest


def test_the_incarnation_grows_with_every_start_and_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "data" / "incarnation"
    assert [Incarnation(path).number for _ in range(3)] == [1, 2, 3]
    raised = Incarnation(path)
    raised.rise(above=100)
    assert raised.number == 101
    assert Incarnation(path).number == 102


@pytest.mark.parametrize("content", [b"", b"x", b"-5", b"1e9", b"99999999999999999999", b"4294967296", b"\xff"])
def test_a_damaged_incarnation_counts_from_the_beginning(tmp_path: Path, content: bytes) -> None:
    """Peers tell what it was."""
    (tmp_path / "incarnation").write_bytes(content)
    assert Incarnation(tmp_path / "incarnation").number == 1


def test_an_incarnation_that_can_not_be_stored_does_not_stop_the_edge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert Incarnation(tmp_path / "file" / "incarnation").number == 1
    assert caplog.messages == ["incarnation_not_stored"]
