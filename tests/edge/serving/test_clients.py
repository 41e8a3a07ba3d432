"""Unmodified third-party clients with a real edge: tritonclient and kserve's REST client."""

import fcntl
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

from ..processes import CONFIG, Edge

KSERVE = "kserve==0.21.0"
ROWS = 500  # enough that responses are compressed
KIND = {"name": "kind", "kind": "category", "size": 20}
MODEL = CONFIG["model"] | {"fields": [*CONFIG["model"]["fields"], KIND], "classes": ["no", "yes"]}


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    made = Edge(tmp_path_factory.mktemp("edge"), model=MODEL)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def client(edge: Edge) -> Iterator[triton.InferenceServerClient]:
    made = triton.InferenceServerClient(edge.url.removeprefix("http://"))
    yield made
    made.close()


def triton_inputs(count: int, *, binary: bool) -> list[triton.InferInput]:
    arrays = {
        "user": (np.array([b"ann", b"bob"] * (count // 2), dtype=object), "BYTES"),
        "item": (np.arange(count), "INT64"),
        "x": (np.ones((count, 2), np.float32), "FP32"),
        "kind": (np.array(["süß".encode(), b"new"] * (count // 2), dtype=object), "BYTES"),
    }
    inputs = []
    for name, (array, kind) in arrays.items():
        inputs.append(triton.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array, binary_data=binary)
    return inputs


def test_tritonclient_gets_health_and_metadata(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shop")
    assert client.is_model_ready("shop", "1")
    assert not client.is_model_ready("shop", "2")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "alphaedge"
    about = client.get_model_metadata("shop")
    assert [i["name"] for i in about["inputs"]] == ["user", "item", "x", "kind"]
    assert about["parameters"] == {"task": "classify", "classes": ["no", "yes"]}


def test_a_label_in_words_is_answered_with_its_number(edge: Edge) -> None:
    refused = edge.post("/v2/models/shop/feedback", {"ids": [1], "labels": ["yes"]})
    assert refused["status"] == 400
    assert "each 0 for no or 1 for yes" in refused["error"]


@pytest.mark.parametrize("binary", [True, False])
def test_tritonclient_gets_predictions(client: triton.InferenceServerClient, binary: bool) -> None:
    inputs = triton_inputs(2, binary=binary)
    every = client.infer("shop", inputs, request_id="r")
    assert every.get_response()["id"] == "r"
    assert every.as_numpy("prediction").shape == (2,)
    assert every.as_numpy("prediction_id").dtype == np.int64
    asked = [triton.InferRequestedOutput("prediction", binary_data=binary)]
    one = client.infer("shop", inputs, outputs=asked)
    assert one.as_numpy("prediction").tolist() == every.as_numpy("prediction").tolist()
    assert one.as_numpy("prediction_id") is None
    with pytest.raises(triton.InferenceServerException, match="also user"):
        client.infer("shop", inputs[1:])


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_tritonclient_may_compress_both_ways(client: triton.InferenceServerClient, coding: str, binary: bool) -> None:
    inputs = triton_inputs(ROWS, binary=binary)
    plain = client.infer("shop", inputs)
    packed = client.infer("shop", inputs, request_compression_algorithm=coding, response_compression_algorithm=coding)
    assert packed.as_numpy("prediction").tolist() == plain.as_numpy("prediction").tolist()
    assert packed.as_numpy("prediction_id").shape == (ROWS,)


KSERVE_CLIENT = """
import asyncio, sys
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

ROWS = 500


def request(binary):
    arrays = {
        "user": (np.array([b"ann", b"bob"] * (ROWS // 2), dtype=np.object_), "BYTES"),
        "kind": (np.array(["süß".encode(), b"new"] * (ROWS // 2), dtype=np.object_), "BYTES"),
        "item": (np.arange(ROWS), "INT64"),
        "x": (np.ones((ROWS, 2), np.float32), "FP32"),
    }
    inputs = []
    for name, (array, kind) in arrays.items():
        inputs.append(InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array, binary_data=binary)
    asked = {"binary_data_output": binary}
    return InferRequest(model_name="shop", infer_inputs=inputs, request_id="r", parameters=asked)


async def main(url):
    async with InferenceRESTClient(RESTConfig(protocol="v2", retries=0)) as client:
        assert await client.is_server_live(url) is True
        assert await client.is_server_ready(url) is True
        assert await client.is_model_ready(url, "shop") is True
        assert await client.is_model_ready(url, "other") is False
        found = []
        for binary in (True, False):
            headers = {}
            answer = await client.infer(url, request(binary), model_name="shop", response_headers=headers)
            assert headers["content-encoding"] == "gzip", headers  # httpx asks for it by itself
            assert answer.model_name == "shop" and answer.id == "r"
            outputs = {output.name: output.as_numpy() for output in answer.outputs}
            assert outputs["prediction_id"].dtype == np.int64 and len(set(outputs["prediction_id"].tolist())) == ROWS
            found.append(outputs["prediction"].tolist())
        assert found[0] == found[1]
        wrong = request(False)
        wrong.inputs = wrong.inputs[2:]
        try:
            await client.infer(url, wrong, model_name="shop")
        except Exception as error:
            assert "also user, kind" in str(error), error
        else:
            raise AssertionError("a missing input was not refused")


asyncio.run(main(sys.argv[1]))
"""


def kserve_python() -> Path:
    """An interpreter with kserve, in a virtual environment of its own: it needs other versions than the pinned ones."""
    place = Path(sys.prefix) / "clients" / KSERVE
    python, ready = place / "bin" / "python", place / "ready"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes
        if not ready.exists():
            venv.create(place, with_pip=True)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", KSERVE]
            done = subprocess.run(pip, capture_output=True, text=True)
            if done.returncode != 0:
                why = f"{KSERVE} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
                pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
            ready.touch()
    return python


@pytest.mark.long  # its packages are 450 MB, the first time
@pytest.mark.timeout(900)
def test_the_client_of_kserve_works(edge: Edge) -> None:
    command = [str(kserve_python()), "-c", KSERVE_CLIENT, edge.url]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
