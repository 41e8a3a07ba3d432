"""A directory at a real nats-server: who may write what, and what is lost and found when servers come and go."""

import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, NoKeysError, NotFoundError

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.nats import NatsDirectory
from alphaedge.edge.directory.nats_server_config import key
from alphaedge.edge.trust.credentials import InsecureCredentials
from alphaedge.errors import InvalidValue

from .directories import (
    DOWN,
    NAMES,
    NatsFleet,
    about,
    agreed,
    connection,
    issue_all,
    run,
    trust,
    until,
    views,
)
from .nats_server import SERVER, NatsServer, for_fleet, free_port


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issue_all(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def server(certs: Path, tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats", for_fleet(certs / "ours", NAMES, tmp_path / "store")) as running:
        yield running


@pytest.fixture
def lenient(certs: Path, tmp_path: Path) -> Iterator[NatsServer]:
    """A server on which any edge may do anything."""
    ours = certs / "ours"
    files = f'cert_file: "{ours}/{SERVER}.pem", key_file: "{ours}/{SERVER}.key", ca_file: "{ours}/ca.pem"'
    settings = f'tls {{ {files}, verify: true }}\njetstream {{ store_dir: "{tmp_path}/store" }}\n'
    with NatsServer(tmp_path / "nats", settings) as running:
        yield running


@pytest.mark.parametrize("missed", [False, True])
def test_a_server_that_is_killed_and_comes_back_is_used_again(
    certs: Path, server: NatsServer, caplog: pytest.LogCaptureFixture, missed: bool
) -> None:
    """Its bucket is in memory: what was in it is lost."""

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        server.kill()
        if missed:
            await until(lambda: set(fleet.edges["berlin"].alive()) == {"berlin"}, "berlin to be alone")
            await fleet.speak("bonn", 2)  # to nobody, yet
        server.start()
        await fleet.speak("bonn", 3)
        await fleet.join("north.shop.")
        await agreed(fleet, {"berlin": 1, "bonn": 3, "north.shop.": 1})
        await fleet.close()

    with caplog.at_level(logging.INFO, "alphaedge.edge"):
        run(test())
    events = [record.message for record in caplog.records if record.name == "alphaedge.edge"]
    assert sorted(events) == ["the directory fails"] * 2 + ["the directory works again"] * 2, "each edge says it once"


def test_a_server_that_is_not_there_yet_keeps_nobody_waiting(
    certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = NatsServer(tmp_path / "nats", for_fleet(certs / "ours", NAMES, tmp_path / "store"))

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        began = time.monotonic()
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        assert time.monotonic() - began < 2
        assert views(fleet) == {"berlin": {"berlin": 1}, "bonn": {"bonn": 1}}
        await until(lambda: caplog.messages.count("the directory fails") == 2, "both to notice")
        server.start()
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        server.kill()
        began = time.monotonic()
        await fleet.close()
        assert time.monotonic() - began < 10, "nor when they leave"

    try:
        run(test())
    finally:
        server.kill()
    (first, *_) = (record for record in caplog.records if record.message == "the directory fails")
    assert "Connect call failed" in str(first.__dict__["fields"]["reason"])


def test_a_bucket_that_is_emptied_or_deleted_fills_again(certs: Path, lenient: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [lenient])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        for harm in ("purge_stream", "delete_stream"):
            async with connection(fleet.config, trust(certs, "liar"), "liar") as client:
                await getattr(client.jetstream(), harm)(f"KV_{fleet.config.bucket}")
            late = await fleet.join("north.shop.")
            await agreed(fleet, {"berlin": 1, "bonn": 1, "north.shop.": 1})
            await late.close()
            del fleet.edges["north.shop."]
            await until(lambda: "north.shop." not in fleet.edges["bonn"].alive(), "north.shop. to leave", DOWN)
            async with connection(fleet.config, trust(certs, "liar"), "liar") as client:
                end = time.monotonic() + 20
                while not {"berlin", "bonn"} <= await kept(client):
                    assert time.monotonic() < end, "the bucket stays empty"
        await fleet.close()

    run(test())


async def kept(client: Client) -> set[str]:
    """The edges whose records are in the bucket, if there is one."""
    with contextlib.suppress(NotFoundError, NoKeysError):
        found = await (await client.jetstream().key_value("alphaedge")).keys()
        return {one.removeprefix("edges.") for one in found}
    return set()


def test_an_edge_that_may_not_write_says_why(certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = for_fleet(certs / "ours", NAMES, tmp_path / "store").replace('alphaedge.edges.bonn"', 'alphaedge.bonn"')
    server = NatsServer(tmp_path / "nats", settings)

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        for edge in ("berlin", "bonn"):
            await fleet.join(edge)
        await until(lambda: set(fleet.edges["bonn"].alive()) == {"berlin", "bonn"}, "bonn to read all the same")
        await until(lambda: "the directory fails" in caplog.messages, "bonn to say so")
        (said,) = (record for record in caplog.records if record.message == "the directory fails")
        assert "permissions violation for publish" in str(said.__dict__["fields"]["reason"])
        assert set(fleet.edges["berlin"].alive()) == {"berlin"}
        await fleet.close()

    with server:
        run(test())


def test_the_server_lets_an_edge_write_its_own_key_only(certs: Path, server: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        berlin = await fleet.join("berlin")
        await fleet.join("bonn")
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        false = msgspec.msgpack.encode(trust(certs, "liar").sign(about("liar", 9)))
        for value in (false, b""):
            with pytest.raises(PermissionError, match=r'violation for publish to "\$kv.alphaedge.edges.bonn'):
                await fleet.write("liar", "bonn", value, seconds=0.5)
        config = ConsumerConfig(deliver_subject=f"$KV.alphaedge.{key('bonn')}", ack_policy=AckPolicy.NONE)
        async with connection(fleet.config, trust(certs, "liar"), "liar") as client:
            with pytest.raises(APIError, match="cycle"):  # nor by a detour
                await client.jetstream().add_consumer("KV_alphaedge", config)
        for harm in ("delete_stream", "purge_stream"):
            with pytest.raises(PermissionError, match="permissions violation"):
                async with connection(fleet.config, trust(certs, "liar"), "liar") as client:
                    await getattr(client.jetstream(timeout=0.5), harm)("KV_alphaedge")
        with pytest.raises(PermissionError, match="permissions violation for subscription"):
            async with connection(fleet.config, trust(certs, "liar"), "berlin") as client:  # another's letters
                await client.jetstream(timeout=0.5).key_value("alphaedge")
        assert views(fleet) == {"berlin": {"berlin": 1, "bonn": 1}, "bonn": {"berlin": 1, "bonn": 1}}
        assert berlin.refused() == {}
        await fleet.close()

    run(test())


def test_where_the_server_would_let_it_the_signature_does_not(certs: Path, lenient: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [lenient])
        berlin = await fleet.join("berlin")
        await fleet.join("bonn")
        await agreed(fleet, {"berlin": 1, "bonn": 1})
        await fleet.write("liar", "bonn", msgspec.msgpack.encode(trust(certs, "liar").sign(about("liar", 9))))
        await fleet.write("liar", "bonn", b"nonsense")
        reasons = [
            "a record of liar is under the key of bonn",
            "a record under the key of bonn can't be read (Expected `array`, got `int`)",
        ]
        await until(lambda: len(berlin.refused()) == 2, "both lies")
        assert berlin.refused() == dict.fromkeys(reasons, 1)
        assert views(fleet, ["berlin"]) == {"berlin": {"berlin": 1, "bonn": 1}}
        await fleet.close()

    run(test())


def test_who_is_not_of_the_fleet_does_not_get_in(certs: Path, server: NatsServer) -> None:
    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        async with connection(fleet.config, trust(certs, "bonn"), "bonn") as client:
            await client.flush(timeout=2)
        strangers = [trust(certs, "bonn", fleet="theirs"), trust(certs, "new")]  # of another fleet, not in the list
        for own in strangers:
            with pytest.raises((nats.errors.Error, OSError)):
                async with connection(fleet.config, own, "bonn") as client:
                    await client.flush(timeout=2)

    run(test())


@pytest.mark.parametrize(("settings", "reason"), [("plain", "does not encrypt"), ("theirs", "certificate")])
def test_a_server_that_is_not_of_the_fleet_is_not_talked_to(
    certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: str, reason: str
) -> None:
    plain = f'jetstream {{ store_dir: "{tmp_path}/store" }}'
    foreign = for_fleet(certs / "theirs", NAMES, tmp_path / "store")
    server = NatsServer(tmp_path / "nats", plain if settings == "plain" else foreign)

    async def test() -> None:
        fleet = NatsFleet(certs, [server])
        berlin = await fleet.join("berlin")
        await until(lambda: "the directory fails" in caplog.messages, "berlin to notice")
        (said,) = (record for record in caplog.records if record.message == "the directory fails")
        assert reason in str(said.__dict__["fields"]["reason"])
        assert set(berlin.alive()) == {"berlin"}
        await fleet.close()

    with server:
        run(test())


def test_without_certificates_the_server_must_be_on_this_machine(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValue, match=r"peers\.nats\.servers: found '192\.0\.2\.1'; allowed: an address on loopback"
    ):
        NatsDirectory(NatsConfig(servers=("nats://192.0.2.1:4222",)), "berlin", InsecureCredentials("berlin", "DE"))
    server = NatsServer(tmp_path / "nats", f'jetstream {{ store_dir: "{tmp_path}/store" }}')

    async def test() -> None:
        config = NatsConfig(servers=(server.url.replace("tls", "nats"),), down_after=DOWN)
        made = {edge: NatsDirectory(config, edge, InsecureCredentials(edge, "DE")) for edge in ("berlin", "bonn")}
        for edge, one in made.items():
            await one.start()
            await one.speak(InsecureCredentials(edge, "DE").sign(about(edge, 1)))
        await until(lambda: all(set(one.alive()) == set(made) for one in made.values()), "both to see both")
        for one in made.values():
            await one.close()

    with server:
        run(test())


@pytest.mark.long
def test_a_cluster_that_loses_a_server_goes_on(certs: Path, tmp_path: Path) -> None:
    servers = [NatsServer(tmp_path / f"nats{i}") for i in range(3)]
    routes = [free_port() for _ in servers]
    for number, one in enumerate(servers):
        others = ", ".join(f'"nats-route://127.0.0.1:{route}"' for route in routes)
        cluster = f'cluster {{ name: c, listen: "127.0.0.1:{routes[number]}", routes: [{others}] }}\n'
        settings = for_fleet(certs / "ours", NAMES, tmp_path / f"store{number}").strip().strip("{}")
        one.write(f'{settings}\nserver_name: "n{number}"\n{cluster}')

    async def test() -> None:
        fleet = NatsFleet(certs, servers)
        for edge in NAMES:
            await fleet.join(edge)
        await agreed(fleet, dict.fromkeys(NAMES, 1))
        for version, one in enumerate(servers, 2):
            one.kill()
            for edge in NAMES:
                await fleet.speak(edge, version)
            await agreed(fleet, dict.fromkeys(NAMES, version))
            one.start()
        await fleet.close()

    with contextlib.ExitStack() as running:
        for one in servers:
            running.enter_context(one)
        run(test())
