"""What one edge packs another unpacks; what is wrong, foreign or hostile is refused, and by name."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alphaedge.edge.exchange import Pull, Request
from alphaedge.edge.wire import LARGEST, Expected, Refused, pack_pull, pack_request, unpack_request

KEYS = torch.tensor([3, 2**62, 7])
REQUEST = Request(4, (KEYS, torch.tensor([5])), (KEYS[:1], torch.tensor([], dtype=torch.int64)))
PULL = Pull(
    6,
    1000,
    torch.randn(10),
    {"norm.mean": torch.randn(2)},
    (KEYS[:2], torch.tensor([], dtype=torch.int64)),
    (torch.randn(2, 3), torch.empty(0, 4)),
)
EXPECTED = Expected("s1", torch.ones(10), {"norm.mean": torch.zeros(2)}, [torch.ones(9, 3), torch.ones(9, 4)], REQUEST)


def same(one: Pull, two: Pull, tolerance: float = 0.0) -> bool:
    pairs = [(one.dense, two.dense), *zip(one.keys, two.keys, strict=True), *zip(one.rows, two.rows, strict=True)]
    pairs += [(one.statistics[name], two.statistics[name]) for name in one.statistics]
    close = all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)
    return (one.number, one.records) == (two.number, two.records) and close


def test_an_answer_arrives_as_it_was_sent() -> None:
    assert same(EXPECTED.check(pack_pull(PULL, "s1")), PULL)


def test_half_the_bytes_give_three_digits() -> None:
    whole, half = pack_pull(PULL, "s1"), pack_pull(PULL, "s1", half=True)
    assert len(half) < len(whole)
    found = EXPECTED.check(half)
    assert same(found, PULL, 0.01)
    assert found.dense.dtype == torch.float32
    assert torch.equal(found.keys[0], PULL.keys[0]), "keys are never rounded"


@given(st.lists(st.lists(st.integers(0, 2**63 - 1)), min_size=1, max_size=3), st.integers(-1, 2**40))
def test_a_request_arrives_as_it_was_sent(keys: list[list[int]], holds: int) -> None:
    tensors = tuple(torch.tensor(k, dtype=torch.int64) for k in keys)
    found = unpack_request(pack_request(Request(holds, tensors, tensors), "s1"), "s1", len(keys))
    assert found.holds == holds
    for sent, got in zip(tensors, found.keys, strict=True):
        assert torch.equal(sent, got)


def changed(**tensors: torch.Tensor | None) -> bytes:
    """The answer with other tensors, or without some."""
    data = pack_pull(PULL, "s1")
    parts = load(data) | {n.replace("__", "."): t for n, t in tensors.items() if t is not None}
    for name in (n.replace("__", ".") for n, t in tensors.items() if t is None):
        del parts[name]
    about = '{"schema":"s1","number":6,"records":1000}'
    return save(parts, {"alphaedge": about})


LIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "another schema": (lambda: pack_pull(PULL, "s2"), "schema s2"),
    "an old publication again": (lambda: pack_pull(replace(PULL, number=3), "s1"), "publication 3 .* 4 is held"),
    "nothing published": (lambda: pack_pull(replace(PULL, number=0), "s1"), "publication 0"),
    "fewer records than none": (lambda: pack_pull(replace(PULL, records=-1), "s1"), "-1 records"),
    "not a number": (lambda: changed(dense=torch.full((10,), float("nan"))), "dense is not finite"),
    "endless rows": (lambda: changed(rows__0=torch.full((2, 3), float("inf"))), "rows.0 is not finite"),
    "another shape": (lambda: changed(dense=torch.ones(11)), r"dense has shape \(11,\), not \(10,\)"),
    "other rows": (lambda: changed(rows__0=torch.ones(2, 4)), "rows.0 has shape"),
    "whole numbers": (lambda: changed(dense=torch.ones(10, dtype=torch.int64)), "dense has type"),
    "huge": (lambda: changed(dense=torch.full((10,), 1.1 * LARGEST)), "110 times as large"),
    "huge rows": (lambda: changed(rows__0=torch.full((2, 3), 1e6)), "rows.0 is 1000000 times"),
    "no dense part": (lambda: changed(dense=None), "dense too many or too few"),
    "something more": (lambda: changed(virus=torch.ones(1)), "virus too many or too few"),
    "keys twice": (lambda: changed(keys__0=torch.tensor([3, 3])), "different keys"),
    "keys not asked for": (lambda: changed(keys__0=torch.tensor([3, 4])), "not asked for"),
    "keys that are no keys": (lambda: changed(keys__0=torch.tensor([0.5, 1.5])), "different keys"),
    "half a reply": (lambda: pack_pull(PULL, "s1")[:-5], "can't be read"),
    "nothing": (lambda: b"", "can't be read"),
    "garbage": (lambda: bytes(range(256)) * 4, "can't be read"),
    "a pickle": (lambda: pickle.dumps({"dense": [1.0]}), "can't be read"),
    "a header that lies": (lambda: (2**60).to_bytes(8, "little") + b"{}", "can't be read"),
    "no word about itself": (lambda: save(load(pack_pull(PULL, "s1"))), "can't be read"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_lies_are_refused_by_name(lie: str) -> None:
    data, reason = LIES[lie]
    with pytest.raises(Refused, match=reason):
        EXPECTED.check(data())


@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        EXPECTED.check(data)
    with pytest.raises(Refused):
        unpack_request(data, "s1", 2)


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_byte_is_refused_or_does_no_harm(place: int, value: int) -> None:
    data = bytearray(pack_pull(PULL, "s1"))
    data[place % len(data)] = value
    try:
        found = EXPECTED.check(bytes(data))
    except Refused:
        return
    assert all(torch.isfinite(t).all() for t in (found.dense, *found.rows))


def test_a_request_of_another_schema_or_for_other_tables_is_refused() -> None:
    with pytest.raises(Refused, match="schema s2"):
        unpack_request(pack_request(REQUEST, "s2"), "s1", 2)
    with pytest.raises(Refused, match="2 id tables, and there are 1"):
        unpack_request(pack_request(REQUEST, "s1"), "s1", 1)
