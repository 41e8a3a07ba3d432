"""Requests for everything and their answers on the wire: what is wrong, too much or hostile is refused."""

from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.answer_check import ExpectedAnswer
from alphaedge.edge.peers.everything import max_answer_bytes, pack_request, unpack_request
from alphaedge.edge.peers.key_lists import pack_keys
from alphaedge.edge.peers.wire import pack_pull
from alphaedge.errors import ModelRefused

from .test_wire import same

KEYS = torch.tensor([3, 7, 2**47])
PULL = PulledModel(
    6,
    1000,
    torch.randn(10),
    {"norm.mean": torch.randn(2)},
    (KEYS, torch.tensor([], dtype=torch.int64)),
    (torch.randn(3, 3), torch.empty(0, 4)),
)
ROWS = [torch.ones(9, 3), torch.ones(9, 4)]
EXPECTED = ExpectedAnswer("s1", torch.ones(10), {"norm.mean": torch.zeros(2)}, ROWS, [3, 4], 4, None, most=5)
ANSWER = pack_pull(PULL, None, "s1")


def changed(**tensors: torch.Tensor | None) -> bytes:
    """The answer with other tensors; names have _ for dots."""
    about = msgspec.json.decode(ANSWER[8 : 8 + int.from_bytes(ANSWER[:8], "little")])["__metadata__"]
    found = load(ANSWER)
    for name, tensor in tensors.items():
        del found[name.replace("_", ".")]
        if tensor is not None:
            found[name.replace("_", ".")] = tensor
    return save(found, about)


def packed(keys: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(pack_keys(keys)), dtype=torch.uint8)


def test_a_request_arrives_as_it_was_sent_and_an_answer_too() -> None:
    assert unpack_request(pack_request("s1", 4, 100), "s1") == (4, 100)
    assert same(EXPECTED.check(ANSWER), PULL)
    largest = max_answer_bytes(EXPECTED.dense, EXPECTED.statistics, ROWS, 3, [3, 4])
    assert len(ANSWER) <= largest <= len(ANSWER) + 10_000


@given(st.binary(max_size=200))
def test_requests_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(ModelRefused):
        unpack_request(data, "s1")


@pytest.mark.parametrize("wrong", [["s2", 0, 1], ["s1", 0, -1], ["s1", "0", 1], ["s1", 0], ["s1", 0, 1, 2]])
def test_requests_with_wrong_values_are_refused(wrong: list[object]) -> None:
    with pytest.raises(ModelRefused):
        unpack_request(msgspec.msgpack.encode(wrong), "s1")


def test_more_rows_than_were_asked_for_are_refused_before_their_keys_are_unpacked() -> None:
    with pytest.raises(ModelRefused, match="3 rows; allowed: at most 2"):
        replace(EXPECTED, most=2).check(ANSWER)
    bomb = torch.frombuffer(bytearray((2**31).to_bytes(4, "little") + bytes(100)), dtype=torch.uint8)
    with pytest.raises(ModelRefused, match="2147483648 rows; allowed: at most 5"):
        EXPECTED.check(changed(keys_0=bomb))


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys_0": None},
        {"keys_0": packed(KEYS[:2])},
        {"keys_0": packed(KEYS).float()},
        {"keys_0": torch.zeros(3, dtype=torch.uint8)},
        {"keys_0": packed(KEYS).unsqueeze(0)},
        {"keys_0": packed(KEYS)[:-2]},
        {"rows_0": torch.ones(3, 2)},
        {"rows_0": torch.full((3, 3), torch.nan)},
        {"rows_0": torch.full((3, 3), 1e30)},
        {"dense": torch.ones(9)},
    ],
    ids=str,
)
def test_answers_that_do_not_fit_together_are_refused(wrong: dict[str, torch.Tensor | None]) -> None:
    with pytest.raises(ModelRefused):
        EXPECTED.check(changed(**wrong))


def test_an_answer_with_places_is_none_to_a_request_for_everything() -> None:
    tensors = {name: x for name, x in load(ANSWER).items() if not name.startswith("keys")}
    about = msgspec.json.decode(ANSWER[8 : 8 + int.from_bytes(ANSWER[:8], "little")])["__metadata__"]
    tensors |= {f"places.{t}": torch.zeros(1, dtype=torch.uint8) for t in range(2)}
    with pytest.raises(ModelRefused, match="unexpected or missing tensors"):
        EXPECTED.check(save(tensors, about))
