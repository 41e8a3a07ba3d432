"""A real edge does what its API description says, for any request."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.serving.openapi import describe
from alphaedge.inference.feedback import FeedbackCounts

from ..processes import CONFIG, Edge

ROOT = Path(__file__).parents[3]
INFER, FEEDBACK = "/v2/models/shop/infer", "/v2/models/shop/feedback"
TOKEN = {"Authorization": "Bearer s3cret"}


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    folder = tmp_path_factory.mktemp("edge")
    (folder / "token").write_text("s3cret\n")
    made = Edge(folder, serve={"port": 0, "token": "token"})
    try:
        made.start()
        yield made
    finally:
        made.end()


def described(**changes: Any) -> dict[str, Any]:
    return describe(msgspec.convert(CONFIG | changes, EdgeConfig), "1.2.3", token=False)


def operations(description: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (path, method): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }


def test_the_root_leads_people_to_the_dashboard_and_programs_to_the_rest(edge: Edge) -> None:
    with urllib.request.urlopen(f"{edge.url}/", timeout=10) as answer:
        found = json.load(answer)
    assert found["name"] == "alphaedge"
    for link in set(found) - {"name", "version"}:
        with urllib.request.urlopen(urllib.request.Request(edge.url + found[link], headers=TOKEN), timeout=10) as page:
            assert page.status == 200, link
    browser = urllib.request.Request(f"{edge.url}/", headers={"Accept": "text/html,*/*;q=0.8"})
    with urllib.request.urlopen(browser, timeout=10) as page:
        assert page.url == f"{edge.url}/dashboard"


def test_schemathesis_finds_nothing_wrong(edge: Edge, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{edge.url}/v2/openapi.json", "--no-color"]
    command += ["--header", "Authorization: Bearer s3cret", "--phases", "examples,coverage,fuzzing"]
    # A schema can't say that values fit their shape and datatype: the edge may refuse a request that fits the schema.
    command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
    command += ["--max-examples", "25", "--generation-deterministic", "--continue-on-failure"]
    # It keeps its findings for the next run in the current folder: use a new one, so that every run is the same.
    settings = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.edge.fuzzing", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout


def test_the_description_needs_no_token_and_its_examples_work(edge: Edge) -> None:
    found = edge.get("/v2/openapi.json")
    assert found["openapi"] == "3.1.0"
    asked = [operation for operation in operations(found).values() if "requestBody" in operation]
    assert [o["operationId"] for o in asked] == ["infer", "inferOfVersion", "feedback"]
    assert all(o["security"] == [{"token": []}] and "401" in o["responses"] for o in asked)
    for path, operation in ((INFER, asked[0]), (FEEDBACK, asked[2])):
        body = operation["requestBody"]["content"]["application/json"]["examples"]["one"]["value"]
        assert "status" not in edge.post(path, body, **TOKEN)


def test_the_description_is_of_this_edges_model_and_token() -> None:
    found = described()
    (fields,) = [found["components"]["schemas"]["InferenceRequest"]["properties"]["inputs"]]
    assert [one["properties"]["name"]["const"] for one in fields["items"]["oneOf"]] == ["user", "item", "x"]
    assert "BYTES" in fields["items"]["oneOf"][0]["properties"]["datatype"]["enum"]
    assert "BYTES" not in fields["items"]["oneOf"][2]["properties"]["datatype"]["enum"]
    assert found["info"]["version"] == "1.2.3"
    assert "securitySchemes" not in found["components"]
    assert not any("security" in o or "401" in o["responses"] for o in operations(found).values())
    label = found["components"]["schemas"]["Feedback"]["properties"]["labels"]["items"]
    assert label["enum"] == [0, 1]
    free = described(model=CONFIG["model"] | {"task": "regress"})
    assert "enum" not in free["components"]["schemas"]["Feedback"]["properties"]["labels"]["items"]


def test_every_refusal_is_described() -> None:
    found = described()
    used = {status for o in operations(found).values() for status in o["responses"]} - {"200"}
    assert used == {"400", "404", "413", "415", "429", "503"}
    assert used <= set(found["components"]["responses"])


def test_every_description_of_a_response_says_what_a_caller_gets() -> None:
    texts = {name: o["responses"]["200"]["description"] for (name, _), o in operations(described()).items()}
    assert all(len(text.split()) >= 3 for text in texts.values()), texts
    assert texts["/v2/models/{name}/feedback"].startswith("How many labels were accepted")


def test_feedback_is_answered_with_the_struct_that_describes_the_answer(edge: Edge) -> None:
    found = edge.post(FEEDBACK, {"ids": [2**62], "labels": [1.0]}, **TOKEN)
    assert msgspec.convert(found, FeedbackCounts) == FeedbackCounts(accepted=0, known=0, expired=0, unknown=1)
    schema = described()["components"]["schemas"]["FeedbackCounts"]
    assert list(found) == list(schema["properties"]) == schema["required"]


def one(name: str, shape: list[int], kind: str, data: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": kind, "data": data}


def inputs(**changes: Any) -> dict[str, Any]:
    plain = {
        "user": one("user", [1], "BYTES", ["ann"]),
        "item": one("item", [1], "INT64", [3]),
        "x": one("x", [1, 2], "FP32", [0, 1]),
    }
    return {"inputs": list((plain | changes).values())}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"inputs": [], "id": "\xff"}', "utf-8"),
        (b'{"inputs": [], "x": ' + b"[" * 10**5 + b"]" * 10**5 + b"}", "recursion"),
        (inputs(x=one("x", [1, 2], "FP32", [[[[[[[[[0, 1]]]]]]]]])), "inputs.x.data"),
        (inputs(x=one("x", [0] + [2**31 - 1] * 7, "FP32", [])), "inputs.x.shape"),
        (inputs(x=one("x", [2**62, 2**62], "FP32", [])), "inputs.x.shape"),
        (inputs(x=one("x", [-1, -2], "FP32", [0, 1])), "inputs.x.shape"),
        (inputs(x=one("x", [1, 2], "FP32", [0, 10**300])), "finite numbers"),
        (inputs(x=one("x", [1, 2], "BYTES", ["0", "1"])), "inputs.x.datatype"),
        (inputs(x=one("x", [1, 2], "FP128", [0, 1])), "FP128"),
        (inputs(item=one("item", [1], "INT64", [2**63])), "inputs.item.data"),
        (inputs(item=one("item", [1], "FP64", [0.5])), "inputs.item: found 0.5"),
    ],
)
def test_inputs_that_break_the_rules_are_refused_by_name(edge: Edge, body: bytes | dict[str, Any], words: str) -> None:
    found = edge.post(INFER, body, **TOKEN)
    assert found["status"] == 400, found
    assert words in found["error"]


def test_a_shape_without_values_is_refused_by_its_number_of_examples(edge: Edge) -> None:
    kinds = {"user": "BYTES", "item": "INT64", "x": "FP32"}
    found = edge.post(INFER, {"inputs": [one(name, [10**9, 0], kind, []) for name, kind in kinds.items()]}, **TOKEN)
    assert found["status"] == 413
    assert found["error"] == "inputs.user.shape: found '1000000000 examples'; allowed: at most 20000 in one request"


def test_a_header_with_thousands_of_digits_is_refused(edge: Edge) -> None:
    found = edge.post(INFER, inputs(), **TOKEN, **{"Inference-Header-Content-Length": "9" * 5000})
    assert found["status"] == 400
    assert "inference-header-content-length" in found["error"]
    assert len(found["error"]) < 2000, "a refusal quotes only so much of the request"


def test_feedback_that_is_not_json_is_refused(edge: Edge) -> None:
    for body in (b'{"ids": [1], "labels": [1], "\xff": 1}', b'{"ids": ' + b"[" * 10**5, b'{"ids": [1e999]}'):
        assert edge.post(FEEDBACK, body, **TOKEN)["status"] == 400


def test_large_responses_are_compressed_if_the_client_accepts_it(edge: Edge) -> None:
    url = f"{edge.url}/v2/openapi.json"
    for accepted, coding in (
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("br, GZIP;q=0.5", "gzip"),
        ("gzip;q=0.1, deflate;q=0.9", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=much", None),
        ("br", None),
        ("", None),
    ):
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": accepted})) as answer:
            assert answer.headers["Content-Encoding"] == coding, accepted
            assert answer.headers["Vary"] == "accept-encoding"
            assert coding or json.load(answer)["openapi"] == "3.1.0"
    asked = urllib.request.Request(f"{edge.url}/v2", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["Content-Encoding"] is None, "small ones are not"
