"""Whatever a peer writes into the header of an answer, the outcome is an answer or a refusal."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.learning.publication import PulledModel
from alphaedge.errors import ModelRefused

from .test_wire import EXPECTED, PULL, packed


def split(answer: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of an answer, and the bytes of its tensors."""
    start = 8 + int.from_bytes(answer[:8], "little")
    return json.loads(answer[8:start]), answer[start:]


def joined(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def claimed(name: str, kind: str, shape: list[int]) -> bytes:
    """The answer with another type and shape in its header; its bytes stay as they are."""
    header, data = split(packed(PULL))
    header[name] |= {"dtype": kind, "shape": shape}
    return joined(header, data)


LIES = {
    "an empty tensor that is endless": (claimed("rows.1", "F32", [0, 2**62, 4]), "rows.1 has a shape"),
    "a dimension that is no number": (claimed("rows.1", "F32", [0, 2**64 - 1]), "rows.1 has a shape"),
    "a dimension too many": (claimed("rows.1", "F32", [0] * 1000), "rows.1 has a shape of 1000 dimensions"),
    "a type that torch lacks": (claimed("rows.1", "F8_E8M0", [0, 4]), "rows.1 has type F8_E8M0"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_impossible_tensors_are_refused_by_name(lie: str) -> None:
    data, reason = LIES[lie]
    with pytest.raises(ModelRefused, match=reason):
        EXPECTED.check(data)


DIMENSIONS = st.lists(st.one_of(st.integers(0, 11), st.integers(0, 70).map(lambda n: 2**n)), max_size=5)
KINDS = st.sampled_from(
    [
        "F64",
        "F32",
        "F16",
        "BF16",
        "I64",
        "I8",
        "U8",
        "U16",
        "BOOL",
        "C64",
        "F4",
        "F8_E4M3",
        "F8_E5M2FNUZ",
        "F8_E8M0",
        "x",
    ]
)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
TENSOR_CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "dtype": KINDS,
        "shape": DIMENSIONS | JSON,
        "data_offsets": st.lists(st.integers(0, 200), min_size=2, max_size=2) | JSON,
        "more": JSON,
    },
)
NAMES = st.sampled_from(["dense", "rows.0", "rows.1", "places.0", "places.1", "buffer.norm.mean"])
HEADS = st.fixed_dictionaries(
    {},
    optional={"schema": st.just("s1") | JSON, "number": st.just(6) | JSON, "records": st.just(1) | JSON, "more": JSON},
)


@given(st.dictionaries(NAMES | st.text(), TENSOR_CLAIMS | JSON, max_size=3), st.none() | HEADS | JSON)
def test_whatever_a_header_claims_the_outcome_is_an_answer_or_a_refusal(claims: dict[str, Any], head: Any) -> None:
    header, data = split(packed(PULL))
    for name, claim in claims.items():
        header[name] = {**header.get(name, {}), **claim} if isinstance(claim, dict) else claim
    if head is not None:
        header["__metadata__"] = {"alphaedge": json.dumps(head)}
    with contextlib.suppress(ModelRefused):
        assert isinstance(EXPECTED.check(joined(header, data)), PulledModel)


@given(KINDS, DIMENSIONS, NAMES, st.booleans())
def test_an_empty_tensor_of_any_shape_and_type_is_taken_or_refused(
    kind: str, shape: list[int], name: str, zero_first: bool
) -> None:
    """Only an empty tensor's other dimensions are bound by no number of bytes."""
    tensors, data = split(packed(PULL))
    parts = {other: data[slice(*about["data_offsets"])] for other, about in tensors.items() if other != "__metadata__"}
    parts[name], place = b"", 0
    tensors[name] |= {"dtype": kind, "shape": [0, *shape] if zero_first else [*shape, 0]}
    for other, part in parts.items():
        tensors[other]["data_offsets"], place = [place, place + len(part)], place + len(part)
    with contextlib.suppress(ModelRefused):
        assert isinstance(EXPECTED.check(joined(tensors, b"".join(parts.values()))), PulledModel)
