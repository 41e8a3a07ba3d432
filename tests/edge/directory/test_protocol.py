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
    certify_anew,
    foreign_credentials,
    our_credentials,
    revoke,
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


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_an_edge_whose_clock_was_off_is_up_again_within_10_s_of_the_correction(check: Check, jump: float) -> None:
    """Even if it has started while the clock was wrong, and starts again afterwards."""

    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        fleet.clock.run()
        everyone = {"berlin": 1, "bonn": 1, "north.shop.": 1}
        for offset in (jump, 0.0):
            fleet.members.offsets["bonn"] = offset
            for restarts in (False, True):
                if restarts:
                    await fleet.crash("bonn")
                    await fleet.join("bonn")
                await until(lambda: all(view == everyone for view in views(fleet).values()), "bonn to be up", 10.0)
                skew = f"a skew of {offset} to be measured"
                await until(lambda: abs(skews(fleet, "berlin")["bonn"] - offset) < 60, skew)  # noqa: B023
        assert not any(directory.refusals() for directory in fleet.edges.values())

    check(test)


def skews(fleet: Fleet, edge: str) -> dict[str, float]:
    """Return the skews that an edge has measured; not a number where it has none."""
    return {other: float("nan") for other in fleet.edges} | dict(fleet.edges[edge].skews())


def test_an_edge_that_has_lost_its_disk_is_up_again(check: Check) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "north.shop."):
            await fleet.join(edge)
        fleet.clock.run()
        for _ in range(3):
            await fleet.crash("bonn")
            await fleet.join("bonn")
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
        await fleet.crash("bonn")
        await until_all_see(fleet, {"berlin": 1, "north.shop.": 1})
        old = fleet.members.incarnations.pop("bonn").number
        await fleet.join("bonn")
        await until(
            lambda: all(set(view) == {"berlin", "bonn", "north.shop."} for view in views(fleet).values()), "all"
        )
        assert fleet.members.incarnations["bonn"].number > old

    check(test)


def test_a_revocation_list_spreads_and_the_revoked_edge_is_gone(check: Check, certs: Path, tmp_path: Path) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "liar"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "liar": 1})
        fleet.clock.run()
        members, old = fleet.members, fleet.members.credentials["liar"].sign(announcement("liar", 9))
        members.credentials["berlin"].revocations.offer(revoke(certs, 2, "liar"))
        assert "liar" not in fleet.edges["berlin"].alive(), "at once"
        await until(lambda: members.credentials["bonn"].revocations.number == 2, "the list to reach bonn")
        await until(lambda: set(fleet.edges["bonn"].alive()) == {"berlin", "bonn"}, "bonn to drop the liar")
        members.credentials["bonn"].revocations.offer(revoke(certs, 1))
        assert members.credentials["bonn"].revocations.number == 2, "an older list never replaces a newer one"

        await fleet.crash("liar")
        members.folders["liar"] = certify_anew(certs, "liar", tmp_path / "anew")
        await fleet.join("liar")
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "liar": 1})
        assert old.certificate != members.credentials["liar"].sign(announcement("liar", 9)).certificate

    check(test)


def test_a_banned_edge_is_ignored_by_who_bans_it_until_the_ban_is_lifted(check: Check) -> None:
    async def test(fleet: Fleet) -> None:
        for edge in ("berlin", "bonn", "liar"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1, "liar": 1})
        fleet.members.bans["berlin"] = {"liar"}
        assert set(fleet.edges["berlin"].alive()) == {"berlin", "bonn"}, "at once"
        await fleet.announce("liar", 2)
        await until(lambda: views(fleet, ["bonn"])["bonn"].get("liar") == 2, "bonn to hear of the second announcement")
        await fleet.announce("bonn", 2)
        await until(lambda: views(fleet, ["berlin"])["berlin"] == {"berlin": 1, "bonn": 2}, "berlin to hear bonn only")
        assert not fleet.edges["berlin"].refusals(), "to be banned is no fault of those who pass announcements on"
        fleet.members.bans.clear()
        await until_all_see(fleet, {"berlin": 1, "bonn": 2, "liar": 2})

    check(test)
