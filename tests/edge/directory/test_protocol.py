"""What every directory guarantees, whether it is gossip or NATS."""

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from alphaedge.edge.directory import gossip
from alphaedge.edge.trust.announcements import SignedAnnouncement

from ..directories import (
    EDGES,
    Fleet,
    GossipFleet,
    NatsFleet,
    announcement,
    foreign_credentials,
    our_credentials,
    run,
    tampered,
    until,
    until_all_see,
    views,
)

Test = Callable[[Fleet], Awaitable[None]]
Check = Callable[[Test], None]


@pytest.fixture(params=["gossip", "nats"])
def check(request: pytest.FixtureRequest, certs: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Runs a test with a fleet of each kind."""
    monkeypatch.setattr(gossip, "ROUND_SECONDS", 0.1)
    kind: Callable[[], Fleet] = functools.partial(GossipFleet, certs)
    if request.param == "nats":
        kind = functools.partial(NatsFleet, certs, [request.getfixturevalue("server")])

    async def with_fleet(test: Test) -> None:
        fleet = kind()
        try:
            await test(fleet)
        finally:
            await fleet.close()

    return lambda test: run(with_fleet(test))


def test_every_edge_sees_every_edge_and_itself(check: Check) -> None:
    async def test(fleet: Fleet) -> None:
        first = await fleet.join("berlin")
        assert set(first.alive()) == {"berlin"}, "at once"
        for edge in EDGES[1:]:
            await fleet.join(edge)
        await until_all_see(fleet, dict.fromkeys(EDGES, 1))
        assert not any(directory.refusals() for directory in fleet.edges.values())

    check(test)


def test_a_new_announcement_replaces_the_old_one_everywhere(check: Check) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in EDGES:
            await fleet.join(edge)
        await until_all_see(fleet, dict.fromkeys(EDGES, 1))
        await fleet.announce("bonn", 2, publication=7, shares={"berlin": 0.25})
        await until_all_see(fleet, {**dict.fromkeys(EDGES, 1), "bonn": 2})
        for directory in fleet.edges.values():
            assert directory.alive()["bonn"].shares == {"berlin": 0.25}
            assert directory.alive()["bonn"].publication == 7

    check(test)


def test_an_edge_that_crashes_is_missed_and_may_come_back(check: Check) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        await fleet.crash("bonn")
        fleet.clock.run()
        await until_all_see(fleet, {"berlin": 1, "north.shop.": 1})
        await fleet.join("bonn", version=2)
        await until_all_see(fleet, {"berlin": 1, "bonn": 2, "north.shop.": 1})

    check(test)


def test_an_edge_that_leaves_is_gone_before_its_silence_could_be_noticed(check: Check) -> None:
    """The clock stands still: an edge that is silent still counts as alive."""

    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        await fleet.announce("bonn", 2, gone=True)
        await fleet.edges["bonn"].close()
        del fleet.edges["bonn"]
        await until_all_see(fleet, {"berlin": 1, "north.shop.": 1})

    check(test)


def wrong_name(certs: Path) -> SignedAnnouncement:
    return our_credentials(certs, "liar").sign(announcement("bonn", 9))


def wrong_region(certs: Path) -> SignedAnnouncement:
    return our_credentials(certs, "liar").sign(announcement("liar", 9, region="US"))


def wrong_fleet(certs: Path) -> SignedAnnouncement:
    return foreign_credentials(certs, "liar").sign(announcement("liar", 9))


LIES: dict[str, tuple[Callable[[Path], SignedAnnouncement], str]] = {
    "a wrong signature": (tampered, "an announcement of liar has a wrong signature"),
    "another name": (wrong_name, "liar in DE claims to be bonn in DE"),
    "another region": (wrong_region, "liar in DE claims to be liar in US"),
    "another fleet": (
        wrong_fleet,
        "the certificate of an announcement is refused: the certificate was not issued by this fleet's authority",
    ),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_an_announcement_that_lies_is_refused_and_counted_by_its_reason(check: Check, certs: Path, lie: str) -> None:
    make, reason = LIES[lie]

    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        await fleet.inject("liar", our_credentials(certs, "liar").sign(announcement("liar", 1)))
        await until(lambda: "liar" in fleet.edges["berlin"].alive(), "the liar, while it tells the truth")
        await fleet.inject("liar", make(certs))
        await until(lambda: bool(fleet.edges["berlin"].refusals()), "the lie to arrive")
        assert fleet.edges["berlin"].refusals() == {reason: 1}
        view = views(fleet, ["berlin"])["berlin"]
        assert view == {"berlin": 1, "bonn": 1, "liar": 1}, "what was accepted before still counts"

    check(test)


def test_an_older_announcement_changes_nothing(check: Check, certs: Path) -> None:
    async def test(fleet: Fleet) -> None:
        await fleet.join("berlin")
        await fleet.join("bonn", version=5)
        await until_all_see(fleet, {"berlin": 1, "bonn": 5})
        await fleet.inject("bonn", our_credentials(certs, "bonn").sign(announcement("bonn", 4)))
        await fleet.inject("bonn", tampered(certs))  # once this has arrived, so has the one before it
        await until(lambda: bool(fleet.edges["berlin"].refusals()), "the second announcement")
        assert views(fleet) == {"berlin": {"berlin": 1, "bonn": 5}, "bonn": {"berlin": 1, "bonn": 5}}

    check(test)
