"""Who may connect to the port for other edges, and what it answers."""

import ssl
from pathlib import Path

import aiohttp
import pytest

from alphaedge.errors import PeerError

from ..directories import run
from .ends import MODEL, ask, asking, serving


def test_both_ends_know_each_other(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, paris), asking(certs) as berlin:
            assert await ask(berlin, address) == MODEL
            assert paris.pulls == ["berlin in EU pulls b'x'"]

    run(test())


def test_an_unknown_endpoint_is_answered_with_the_known_ones(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, _), asking(certs) as berlin:
            with pytest.raises(PeerError, match="404: no endpoint 'money'; allowed: pull"):
                await ask(berlin, address, endpoint="money")

    run(test())


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        ({}, {"fleet": "theirs"}, "(?i)certificate|alert|ssl|connect"),
        ({"fleet": "theirs", "authority": "theirs"}, {}, "CERTIFICATE_VERIFY_FAILED|self.signed|certificate"),
        ({"edge": "expired"}, {}, "expired"),
        ({}, {"edge": "expired"}, "(?i)certificate|alert|ssl|connect"),
        ({"edge": "elsewhere"}, {}, "IP address mismatch"),
    ],
)
def test_an_end_with_a_wrong_certificate_is_refused(
    certs: Path, server: dict[str, str], client: dict[str, str], reason: str
) -> None:
    async def test() -> None:
        async with serving(certs, **server) as (address, paris), asking(certs, **client) as berlin:
            with pytest.raises(PeerError, match=reason):
                await ask(berlin, address)
            assert paris.pulls == []

    run(test())


def test_a_client_without_a_certificate_is_refused(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, paris):
            context = ssl.create_default_context(cafile=str(certs / "ours" / "ca.pem"))
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
                with pytest.raises(aiohttp.ClientError):
                    async with session.post(f"https://{address}/peer/pull", data=b"x") as response:
                        await response.read()
            assert paris.pulls == []

    run(test())


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"forbidden", "403: deny from=paris to=berlin"),
        (b"refused", "409: another schema"),
        (b"nonsense", "400: not a pull"),
    ],
)
def test_a_refusal_arrives_with_its_reason(certs: Path, request_: bytes, answer: str) -> None:
    async def test() -> None:
        async with serving(certs) as (address, _), asking(certs) as berlin:
            with pytest.raises(PeerError, match=answer):
                await ask(berlin, address, request_)
            assert berlin.is_resting(address, "paris")

    run(test())


def test_the_rest_of_an_answer_goes_only_to_the_edge_that_it_was_for(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, _), asking(certs) as berlin, asking(certs, "paris") as paris:
            async with berlin._open_session().post(f"https://{address}/peer/pull", data=b"x") as response:
                await response.read()
                token = response.headers["etag"]
            rest = f"https://{address}/peer/again/{token}?from=1000"
            async with berlin._open_session().get(rest) as response:
                assert await response.read() == MODEL[1000:]
            for client, url in (
                (paris, rest),
                (berlin, rest.replace(token, "0" * 32)),
                (berlin, rest + "x"),
                (berlin, rest.replace("1000", "%C2%B2")),
                (berlin, rest.replace("1000", "99999999999")),
            ):
                async with client._open_session().get(url) as response:
                    assert response.status == 404

    run(test())
