"""The client for one edge: edges understand its requests, and errors name the edge and its answer."""

import asyncio
import datetime as dt
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from alphaedge import Dataset, InvalidValue
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.errors import EdgeError
from alphaedge.inference.client import EdgeClient
from tests.edge.processes import Edge
from tests.replay.edges import TOKEN, client_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8080", "ftp://host", "http://", "http://host/path", "http://host:x", "http://a@host", "http://h?q"],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match=r"^url: found .*; allowed: http://host:port or https://host:port$"):
        EdgeClient(url)


@pytest.mark.parametrize("token", ["two\nlines", "\u00fc"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidValue, match=r"^token: found '[0-9]+ characters'; allowed: printable"):
        EdgeClient("http://127.0.0.1", token=token)


def test_an_edge_reports_its_models_name_fields_and_task(pair: list[Edge], store: Dataset) -> None:
    async def main() -> None:
        async with client_of(pair[0]) as client:
            assert await client.ready()
            found = await client.metadata()
            assert (found.name, found.parameters.task) == ("shop", "classify")
            assert [i.name for i in found.inputs] == [f.name for f in store.fields]

    asyncio.run(main())


def test_a_label_is_accepted_once(pair: list[Edge], store: Dataset) -> None:
    async def main() -> None:
        inputs = {name: values[:3] for name, values in store.streams[0].inputs.items()}
        async with client_of(pair[0]) as client:
            found = await client.predict(inputs)
            assert len(found.ids) == len(found.predictions) == 3
            assert found.seconds > 0
            assert (await client.feedback(found.ids.tolist(), [1, 0, 1])).accepted == 3
            assert (await client.feedback([*found.ids.tolist(), 2**60], [1, 0, 1, 1])).known == 3

    asyncio.run(main())


def test_a_refusal_names_the_edge_and_its_reason(pair: list[Edge], store: Dataset) -> None:
    edge = pair[0]

    async def main() -> None:
        inputs = {name: values[:1] for name, values in store.streams[0].inputs.items()}
        async with client_of(edge) as client:
            with pytest.raises(EdgeError, match=rf"^{edge.url}: 400: inputs.category: found 99; allowed: ") as refused:
                await client.predict(inputs | {"category": np.array([99])})
            assert (refused.value.status, refused.value.temporary) == (400, False)
            with pytest.raises(EdgeError, match=rf"^{edge.url}: 400: feedback.labels: found 7.0; allowed: 0 or 1$"):
                await client.feedback([1], [7.0])
        async with EdgeClient(edge.url, model="other") as client:
            with pytest.raises(EdgeError, match=rf"^{edge.url}: 404: "):
                await client.metadata()

    asyncio.run(main())


def test_a_missing_or_wrong_token_is_detected_without_a_prediction(pair: list[Edge]) -> None:
    async def main() -> None:
        for token in (None, "guess"):
            async with EdgeClient(pair[1].url, token=token) as client:
                with pytest.raises(EdgeError, match=rf"^{pair[1].url}: 401: send the token"):
                    await client.check_token()
        async with EdgeClient(pair[1].url, token=TOKEN) as client:
            await client.check_token()

    asyncio.run(main())


async def served(answers: dict[str, Handler], context: ssl.SSLContext | None = None) -> tuple[web.AppRunner, str]:
    """Start a server with these handlers; return it and its URL."""
    app = web.Application()
    for path, handler in answers.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    return runner, f"{'https' if context else 'http'}://127.0.0.1:{port}"


def answering(body: Any, status: int = 200) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status) if not isinstance(body, str) else web.Response(text=body)

    return handler


def test_no_answer_is_a_temporary_error() -> None:
    async def main() -> None:
        runner, url = await served({})
        await runner.cleanup()
        async with EdgeClient(url) as client:
            assert not await client.ready()
            with pytest.raises(EdgeError, match=rf"^{url}: no answer \(.*refused") as silent:
                await client.metadata()
            assert silent.value.temporary

    asyncio.run(main())


def test_a_request_to_an_edge_that_hangs_times_out() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def hangs(_: web.Request) -> web.StreamResponse:
            await over.wait()
            return web.Response()

        runner, url = await served({"/v2/health/ready": hangs, "/v2/models/shop/infer": hangs})
        async with EdgeClient(url, model="shop", timeout=0.05) as client:
            with pytest.raises(EdgeError, match=rf"^{url}: no answer in 0.05 s$") as silent:
                await client.predict({"x": np.zeros(1)})
            assert silent.value.temporary
        over.set()
        await runner.cleanup()

    asyncio.run(main())


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        {"outputs": []},
        {"outputs": [{"name": "prediction", "datatype": "BYTES", "data": [1]}]},
        {
            "outputs": [
                {"name": "prediction", "datatype": "FP32", "data": [1.0, 2.0]},
                {"name": "prediction_id", "datatype": "INT64", "data": [1]},
            ]
        },
    ],
)
def test_an_invalid_answer_is_an_error_and_not_temporary(body: Any) -> None:
    async def main() -> None:
        runner, url = await served({"/v2/models/shop/infer": answering(body)})
        async with EdgeClient(url, model="shop") as client:
            with pytest.raises(EdgeError, match=f"^{url}: ") as wrong:
                await client.predict({"x": np.zeros(1)})
            assert not wrong.value.temporary
        await runner.cleanup()

    asyncio.run(main())


def test_the_name_of_the_model_must_be_given_if_the_server_does_not_report_it() -> None:
    about = {"name": "shop", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}

    async def main() -> None:
        runner, url = await served({"/v2/models/shop": answering(about)})
        async with EdgeClient(url) as client:
            with pytest.raises(
                InvalidValue, match=rf"^model: found nothing; allowed: the name of the model, since {url} does"
            ):
                await client.metadata()
        async with EdgeClient(url, model="shop") as client:
            found = await client.metadata()
            assert (found.parameters.task, found.inputs[0].shape) == (None, [-1, 2])
        await runner.cleanup()

    asyncio.run(main())


def test_redirects_are_not_followed() -> None:
    async def moved(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    async def main() -> None:
        runner, url = await served({"/v2/models/shop/infer": moved})
        async with EdgeClient(url, model="shop", token=TOKEN) as client:
            with pytest.raises(EdgeError, match=f"^{url}: 302: "):
                await client.predict({"x": np.zeros(1)})
        await runner.cleanup()

    asyncio.run(main())


def test_https_needs_the_fleets_authority(tmp_path: Path) -> None:
    authority, now = CertificateFolder(tmp_path), dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=10)
    authority.issue("berlin", "DE", ["127.0.0.1"], now=now, days=5)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "berlin.pem", tmp_path / "berlin.key")

    async def main() -> None:
        runner, url = await served({"/v2/health/ready": answering({"ready": True})}, context)
        async with EdgeClient(url, authority=tmp_path / "ca.pem") as client:
            assert await client.ready()
        async with EdgeClient(url) as client:
            with pytest.raises(EdgeError, match=rf"^{url}: no trusted connection"):
                await client.ready()
        await runner.cleanup()

    asyncio.run(main())
    with pytest.raises(InvalidValue, match=r"^authority: found .*; allowed: a file with a certificate"):
        EdgeClient("https://127.0.0.1", authority=tmp_path / "none.pem")
