"""A directory at a real nats-server: what it permits, and what happens when servers come and go."""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, NoKeysError, NotFoundError

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.nats import NatsDirectory
from alphaedge.edge.directory.nats_server_config import bucket_key, server_config, updated_config
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import InsecureCredentials
from alphaedge.errors import InvalidValue

from ..credentials import load_credentials, utc_now
from ..directories import (
    DOWN_AFTER_SECONDS,
    EDGES,
    LIMIT_SECONDS,
    Link,
    NatsFleet,
    announcement,
    beacon,
    connect,
    foreign_credentials,
    our_credentials,
    run,
    until,
    until_all_see,
    views,
)
from ..hostile import alive_peers
from ..nats_server import SERVER, NatsServer, fleet_config, free_port
from ..processes import fleet_of, restored, teach, wait_for

BUCKET = "KV_alphaedge"


@pytest.fixture
def lenient(certs: Path, tmp_path: Path) -> Iterator[NatsServer]:
    """A server on which any edge may do anything."""
    ours = certs / "ours"
    files = f'cert_file: "{ours}/{SERVER}.pem", key_file: "{ours}/{SERVER}.key", ca_file: "{ours}/ca.pem"'
    config = f'tls {{ {files}, verify: true }}\njetstream {{ store_dir: "{tmp_path}/store" }}\n'
    with NatsServer(tmp_path / "nats", config) as running:
        yield running


class Events:
    """The events that directories have logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, "alphaedge.edge")

    def failing(self) -> int:
        """Count the directories that have reported a failure and no recovery since."""
        return self._caplog.messages.count("directory_failed") - self._caplog.messages.count("directory_recovered")

    def has_failure(self, reason: str) -> bool:
        """Whether a directory has reported a failure with this reason."""
        failures = [record for record in self._caplog.records if record.message == "directory_failed"]
        return any(reason in str(record.__dict__["fields"]["reason"]) for record in failures)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    return Events(caplog)


@pytest.mark.parametrize("missed", [False, True])
def test_a_server_that_is_killed_and_comes_back_is_used_again(
    certs: Path, server: NatsServer, events: Events, monkeypatch: pytest.MonkeyPatch, missed: bool
) -> None:
    """Its bucket is in memory, so what was in it is lost. missed: the edges count each other as down meanwhile."""
    attempts, connect_once = list[str](), NatsDirectory._connect

    async def connect_and_count(self: NatsDirectory, connection: Client) -> None:
        attempts.append(self._edge)
        await connect_once(self, connection)

    monkeypatch.setattr(NatsDirectory, "_connect", connect_and_count)

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        server.kill()
        await until(lambda: events.failing() == 2, "both to report a failure")
        if missed:
            attempts.clear()
            await until(lambda: min(attempts.count(edge) for edge in fleet.edges) >= 2, "both to try again, twice")
            assert events.failing() == 2, "an edge reports a failure once"
            fleet.clock.run()
            await until(lambda: set(fleet.edges["berlin"].alive()) == {"berlin"}, "berlin to be alone")
            await fleet.announce("bonn", 2)  # nobody receives this
        server.start()
        await fleet.announce("bonn", 3)
        await fleet.join("north.shop.")
        await until_all_see(fleet, {"berlin": 1, "bonn": 3, "north.shop.": 1})
        await until(lambda: events.failing() == 0, "both to report that they have recovered")
        await fleet.close()

    run(test())


def test_no_edge_waits_for_a_server_that_is_not_there(certs: Path, tmp_path: Path, events: Events) -> None:
    server = NatsServer(tmp_path / "nats", fleet_config(certs / "ours", EDGES, tmp_path / "store"))

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)  # would wait for ever: the server starts below
        assert views(fleet) == {"berlin": {"berlin": 1}, "bonn": {"bonn": 1}}
        await until(lambda: events.failing() == 2, "both to report a failure")
        assert events.has_failure("Connect call failed")
        server.start()
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        server.kill()
        await fleet.close()  # nor when they leave

    try:
        run(test())
    finally:
        server.kill()


def test_a_bucket_that_is_emptied_or_deleted_fills_again(certs: Path, lenient: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [lenient])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        for harm in ("purge_stream", "delete_stream"):
            async with connect(fleet.config, our_credentials(certs, "liar"), "liar") as link:
                await getattr(link.stream, harm)(BUCKET)
            late = await fleet.join("north.shop.")
            await until_all_see(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
            await late.close()
            del fleet.edges["north.shop."]
            # The clock stands still, so it is the removal of the key that is noticed.
            await until(lambda: "north.shop." not in fleet.edges["bonn"].alive(), "north.shop. to leave")
            async with connect(fleet.config, our_credentials(certs, "liar"), "liar") as link:
                while not {"berlin", "bonn"} <= await stored_edges(link):
                    await asyncio.sleep(0.02)
        await fleet.close()

    run(test())


async def stored_edges(link: Link) -> set[str]:
    """Return the edges whose announcements are in the bucket, if there is one."""
    with contextlib.suppress(NotFoundError, NoKeysError):
        keys = await (await link.stream.key_value("alphaedge")).keys()
        return {key.removeprefix("edges.") for key in keys}
    return set()


def test_an_edge_that_may_not_write_says_why(certs: Path, tmp_path: Path, events: Events) -> None:
    config = fleet_config(certs / "ours", EDGES, tmp_path / "store")
    server = NatsServer(tmp_path / "nats", config.replace('alphaedge.edges.bonn"', 'alphaedge.bonn"'))

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until(lambda: set(fleet.edges["bonn"].alive()) == {"berlin", "bonn"}, "bonn to read all the same")
        await until(lambda: events.has_failure("permissions violation for publish"), "bonn to report why")
        assert set(fleet.edges["berlin"].alive()) == {"berlin"}
        await fleet.close()

    with server:
        run(test())


def test_an_edge_may_write_only_its_own_key(certs: Path, server: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        berlin = await fleet.join("berlin")
        await fleet.join("bonn")
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        liar = our_credentials(certs, "liar")
        for value in (beacon(liar, liar.sign(announcement("liar", 9))), b""):
            with pytest.raises(PermissionError, match=r'violation for publish to "\$kv.alphaedge.edges.bonn'):
                await fleet.write("liar", "bonn", value)
        detour = ConsumerConfig(deliver_subject=f"$KV.alphaedge.{bucket_key('bonn')}", ack_policy=AckPolicy.NONE)
        async with connect(fleet.config, liar, "liar") as link:
            with pytest.raises(APIError, match="cycle"):
                await link.permitted(link.stream.add_consumer(BUCKET, detour))
        for harm in ("delete_stream", "purge_stream"):
            async with connect(fleet.config, liar, "liar") as link:
                with pytest.raises(PermissionError, match="permissions violation"):
                    await link.permitted(getattr(link.stream, harm)(BUCKET))
        async with connect(fleet.config, liar, inbox="berlin") as link:
            with pytest.raises(PermissionError, match="permissions violation for subscription"):
                await link.permitted(link.stream.key_value("alphaedge"))
        assert views(fleet) == {"berlin": {"berlin": 1, "bonn": 1}, "bonn": {"berlin": 1, "bonn": 1}}
        assert berlin.refusals() == {}
        await fleet.close()

    run(test())


def test_a_value_of_another_edge_is_refused_even_if_the_server_permits_it(certs: Path, lenient: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [lenient])
        berlin = await fleet.join("berlin")
        await fleet.join("bonn")
        await until_all_see(fleet, {"berlin": 1, "bonn": 1})
        liar = our_credentials(certs, "liar")
        await fleet.write("liar", "bonn", b"nonsense")
        await fleet.write("liar", "bonn", beacon(liar, liar.sign(announcement("liar", 9))))
        reasons = [
            "an announcement of liar is under the key of bonn",
            "the value under the key of bonn can't be decoded (Expected `array`, got `int`)",
        ]
        await until(lambda: len(berlin.refusals()) == 2, "both values")
        assert berlin.refusals() == dict.fromkeys(reasons, 1)
        assert views(fleet, ["berlin"]) == {"berlin": {"berlin": 1, "bonn": 1}}
        await fleet.close()

    run(test())


def test_a_revoked_edge_is_disconnected_and_only_its_new_certificate_may_come_back(tmp_path: Path) -> None:
    folder, old, now = CertificateFolder(tmp_path / "certs"), tmp_path / "old", utc_now()
    folder.init("shops", now=now, days=100)
    for edge in ("berlin", "bonn", SERVER):
        folder.issue(edge, "DE", ["127.0.0.1"], now=now, days=50)
    shutil.copytree(folder.path, old)

    def valid() -> list[Identity]:
        return [one for one in folder.identities(now).values() if isinstance(one, Identity)]

    first = server_config(valid(), certs=folder.path, store=tmp_path / "store", name=SERVER)
    server = NatsServer(tmp_path / "nats", first)

    def updated() -> str:
        return updated_config(first, valid(), bucket="alphaedge", pinned=folder.pinned_keys(now))

    async def is_let_in(certificates: Path, edge: str) -> bool:
        try:
            async with connect(config, load_credentials(certificates, edge), edge) as link:
                answered = asyncio.create_task(link.client.flush(timeout=int(LIMIT_SECONDS / 4)))
                await until(lambda: answered.done() or link.client.is_closed, "an answer or the end")
                if not answered.done():  # nobody tells who waits for an answer that the connection has ended
                    answered.cancel()
                    return False
                await answered
        except (nats.errors.Error, OSError):
            return False
        return True

    async def test() -> None:
        async with (
            connect(config, load_credentials(old, "berlin"), "berlin") as berlin,
            connect(config, load_credentials(old, "bonn"), "bonn") as bonn,
        ):
            folder.revoke(["bonn"], (), now=now)
            await asyncio.to_thread(server.reload, updated())
            await until(lambda: bonn.client.is_closed, "bonn to be disconnected")
            assert berlin.client.is_connected
        assert not await is_let_in(old, "bonn")
        folder.renew(["bonn"], now=now, days=50)
        await asyncio.to_thread(server.reload, updated())
        assert await is_let_in(folder.path, "bonn")
        assert await is_let_in(old, "berlin")
        assert not await is_let_in(old, "bonn"), "it has the names of the new one"

    with server:
        config = NatsConfig(servers=(server.url,))
        run(test())


def test_a_configuration_that_certs_nats_has_not_written_is_not_changed(tmp_path: Path) -> None:
    for text in ("", "port: 4222", "[]", '{"tls": {}}'):
        with pytest.raises(InvalidValue, match="allowed: a file of alphaedge certs nats"):
            updated_config(text, [], bucket="alphaedge")


def test_only_edges_of_the_fleet_can_connect(certs: Path, server: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        async with connect(fleet.config, our_credentials(certs, "bonn"), "bonn") as link:
            await link.client.flush(timeout=int(LIMIT_SECONDS / 4))
        not_configured = our_credentials(certs, "new")
        for stranger in (foreign_credentials(certs, "bonn"), not_configured):
            with pytest.raises((nats.errors.Error, OSError)):
                async with connect(fleet.config, stranger, "bonn") as link:
                    await link.permitted(link.client.flush(timeout=int(LIMIT_SECONDS / 4)))

    run(test())


@pytest.mark.parametrize(("kind", "reason"), [("plain", "does not encrypt"), ("theirs", "certificate")])
def test_an_edge_does_not_talk_to_a_server_outside_the_fleet(
    certs: Path, tmp_path: Path, events: Events, kind: str, reason: str
) -> None:
    plain = f'jetstream {{ store_dir: "{tmp_path}/store" }}'
    theirs = fleet_config(certs / "theirs", EDGES, tmp_path / "store")
    server = NatsServer(tmp_path / "nats", plain if kind == "plain" else theirs)

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        berlin = await fleet.join("berlin")
        await until(lambda: events.has_failure(reason), "berlin to report why")
        assert set(berlin.alive()) == {"berlin"}
        await fleet.close()

    with server:
        run(test())


def test_without_certificates_the_server_must_be_on_this_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"peers\.nats\.servers: found '192\.0\.2\.1'; allowed: a loopback address"):
        NatsDirectory(NatsConfig(servers=("nats://192.0.2.1:4222",)), "berlin", InsecureCredentials("berlin", "DE"))
    server = NatsServer(tmp_path / "nats", f'jetstream {{ store_dir: "{tmp_path}/store" }}')

    async def test() -> None:
        config = NatsConfig(servers=(server.url.replace("tls", "nats"),), down_after_seconds=DOWN_AFTER_SECONDS)
        directories = {}
        for edge in ("berlin", "bonn"):
            own = InsecureCredentials(edge, "DE")
            directories[edge] = NatsDirectory(config, edge, own)
            await directories[edge].start()
            await directories[edge].announce(own.sign(announcement(edge, 1)))
        await until(lambda: all(len(one.alive()) == 2 for one in directories.values()), "both to see both")
        for directory in directories.values():
            await directory.close()

    with server:
        run(test())


@pytest.mark.long
def test_a_cluster_that_loses_a_server_goes_on(certs: Path, tmp_path: Path) -> None:
    servers = [NatsServer(tmp_path / f"nats{number}") for number in range(3)]
    routes = [free_port() for _ in servers]
    for number, server in enumerate(servers):
        others = ", ".join(f'"nats-route://127.0.0.1:{route}"' for route in routes)
        cluster = f'cluster {{ name: c, listen: "127.0.0.1:{routes[number]}", routes: [{others}] }}\n'
        config = fleet_config(certs / "ours", EDGES, tmp_path / f"store{number}").strip().strip("{}")
        server.write(f'{config}\nserver_name: "n{number}"\n{cluster}')

    async def test() -> None:
        fleet = NatsFleet(certs, servers)
        for edge in EDGES:
            await fleet.join(edge)
        await until_all_see(fleet, dict.fromkeys(EDGES, 1))
        for version, server in enumerate(servers, 2):
            server.kill()
            for edge in EDGES:
                await fleet.announce(edge, version)
            await until_all_see(fleet, dict.fromkeys(EDGES, version))
            server.start()
        await fleet.close()

    with contextlib.ExitStack() as running:
        for server in servers:
            running.enter_context(server)
        run(test())


@pytest.mark.long
def test_edges_find_each_other_at_a_server_and_learn_from_each_other(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    names = [("berlin", "DE"), ("boston", "US"), ("beijing", "CN")]
    nats_ = {"servers": [server.url], "down_after_seconds": 2.0}
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        fleet = stack.enter_context(fleet_of(tmp_path, names, peers={"nats": nats_, "seeds": []}))
        CertificateFolder(tmp_path / "certs").issue(SERVER, "DE", ["127.0.0.1"], now=utc_now(), days=50)
        server.write(fleet_config(tmp_path / "certs", [edge for edge, _ in names], tmp_path / "store"))
        server.start()
        wait_for(lambda: all(len(alive_peers(edge)) == 2 for edge in fleet), "every edge to see every other")
        for round_ in range(2):
            for number, edge in enumerate(fleet):
                teach(edge, 2, seed=10 * round_ + number)
        learner = restored(fleet[0])
        assert set(learner.links.neighbours) == {"boston", "beijing"}
        assert {j for j, held in learner.held.items() if held.number > 0} == {"boston", "beijing"}
        fleet[2].kill()
        wait_for(lambda: alive_peers(fleet[0]) == {"boston"}, "beijing to be missed")
        assert fleet[1].stop() == 0
        wait_for(lambda: alive_peers(fleet[0]) == set(), "boston to have left")
        assert fleet[0].stop() == 0
