"""What is published in int8 arrives as it was published, in fewer bytes; what can't be is refused by name."""

import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alphaedge.core.compression import BLOCK, Precision, compress_dense, compress_rows, row_bytes
from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers.answer_check import ExpectedAnswer
from alphaedge.edge.peers.number_format import pack_dense, pack_rows, unpack_dense, unpack_rows
from alphaedge.edge.peers.wire import max_answer_bytes, pack_pull, pack_request
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.trust.wire_secrets import WireSecret
from alphaedge.errors import ModelRefused

KEYS = (torch.arange(400), torch.arange(1000, 1003))
WIDTHS = [3, 4]
SIZE = 2 * BLOCK + 2
CIPHER = KeyCipher(WireSecret(b"f", b"f"), "berlin", "boston")
LIST = pack_request(PullRequest(0, KEYS, KEYS), "s1", None, CIPHER)[1]
NONE = torch.empty(0)


def published(precision: Precision, tallies: int = COLUMNS) -> PulledModel:
    g = torch.Generator().manual_seed(0)
    rows = []
    for keys, width in zip(KEYS, WIDTHS, strict=True):
        row = torch.cat([torch.randn(len(keys), width, generator=g), torch.full((len(keys), tallies), 33.3)], dim=1)
        rows.append(compress_rows(row, row[:, :0], width, precision).published)
    dense = compress_dense(torch.randn(SIZE, generator=g), NONE, precision).published
    return PulledModel(1, 1000, dense, {"norm.mean": torch.randn(2, generator=g)}, KEYS, tuple(rows))


def expected(tallies: int = COLUMNS, *, rows_only: bool = False) -> ExpectedAnswer:
    rows = [torch.ones(9, width) for width in WIDTHS]
    told = [width + tallies for width in WIDTHS]
    return ExpectedAnswer("s1", torch.ones(SIZE), {"norm.mean": torch.zeros(2)}, rows, told, 0, LIST, rows_only)


def packed(pull: PulledModel, precision: Precision = "int8", *, rows_only: bool = False) -> bytes:
    return pack_pull(pull, LIST, "s1", precision, widths=WIDTHS, rows_only=rows_only)


@pytest.mark.parametrize("tallies", [0, COLUMNS])
@pytest.mark.parametrize("precision", ["int8", "bfloat16", "full"])
def test_what_is_published_arrives_as_it_was_published(precision: Precision, tallies: int) -> None:
    sent = published(precision, tallies)
    found = expected(tallies).check(packed(sent, precision))
    assert torch.equal(found.dense, sent.dense)
    assert all(torch.equal(a, b) for a, b in zip(found.rows, sent.rows, strict=True))
    assert torch.equal(found.statistics["norm.mean"], sent.statistics["norm.mean"]), "these are never rounded"
    assert found.dense.dtype == torch.float32
    each = [row_bytes(width, width + tallies, 4, precision) for width in WIDTHS]
    parameters = sum(len(keys) * size for keys, size in zip(KEYS, each, strict=True))
    assert found.row_bytes < parameters if precision == "int8" else found.row_bytes == parameters


@pytest.mark.parametrize("precision", ["int8", "bfloat16", "full"])
@pytest.mark.parametrize("rows_only", [False, True])
def test_no_answer_is_larger_than_what_the_receiver_allows(precision: Precision, rows_only: bool) -> None:
    sent, wanted = published(precision), expected(rows_only=rows_only)
    data = packed(sent, precision, rows_only=rows_only)
    wanted.check(data)
    parts = wanted.dense, wanted.statistics, wanted.rows, LIST
    assert len(data) <= max_answer_bytes(*parts, tallies=True, rows_only=rows_only)


@pytest.mark.parametrize("precision", ["bfloat16", "full"])
def test_int8_takes_fewer_bytes_than(precision: Precision) -> None:
    assert len(packed(published("int8"))) < len(packed(published(precision), precision))


@given(st.integers(0, 5), st.integers(1, 5), st.sampled_from([0, COLUMNS]), st.integers(0, 100))
def test_any_number_of_rows_arrives_as_it_was_published(count: int, width: int, tallies: int, seed: int) -> None:
    numbers = torch.rand(count, width + tallies, generator=torch.Generator().manual_seed(seed))
    sent = compress_rows(numbers, numbers[:, :0], width, "int8").published
    kind: dict[str, Any] = {"count": count, "width": width, "told": width + tallies, "dtype": torch.float32}
    parameters, told = unpack_rows(pack_rows(sent, width, "int8"), 0, **kind)
    assert torch.equal(parameters, sent[:, :width])
    assert torch.equal(told[:, :tallies], sent[:, width:])


@given(st.integers(1, 3 * BLOCK), st.integers(0, 100))
def test_a_dense_part_of_any_size_arrives_as_it_was_published(size: int, seed: int) -> None:
    numbers = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    sent = compress_dense(numbers, NONE, "int8").published
    assert torch.equal(unpack_dense(pack_dense(sent, "int8"), size, torch.float32), sent)


def test_a_dense_part_that_is_no_int8_travels_in_bfloat16() -> None:
    numbers = torch.rand(100)
    numbers[3] = 5000.0
    sent = compress_dense(numbers, NONE, "int8").published
    data = pack_dense(sent, "int8")
    assert data.dtype == torch.bfloat16
    assert torch.equal(unpack_dense(data, 100, torch.float32).float(), sent)


def test_a_peer_that_tells_no_tallies_is_read_by_one_that_has_them_and_the_other_way_round() -> None:
    found = expected(COLUMNS).check(packed(published("int8", 0)))
    assert [rows.shape[1] for rows in found.rows] == [width + COLUMNS for width in WIDTHS]
    found = expected(0).check(packed(published("int8", COLUMNS)))
    assert [rows.shape[1] for rows in found.rows] == WIDTHS


def changed(**tensors: torch.Tensor) -> bytes:
    """The answer with other tensors."""
    parts = load(packed(published("int8"))) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return save(parts, {"alphaedge": '{"schema":"s1","number":1,"records":1000}'})


def stream(data: bytes, behind: bytes = b"") -> torch.Tensor:
    return torch.tensor(list(zlib.compress(data) + behind), dtype=torch.uint8)


def rows(scale: float = 1.0, tally: float = 1.0, width: int = WIDTHS[0]) -> torch.Tensor:
    """Rows of the first table, as they would be packed with one code, scale and tally for all."""
    count = len(KEYS[0])
    parts = [torch.ones(width * count, dtype=torch.int8)]
    for value in (scale, tally, tally):
        parts += list(torch.full((count,), value).bfloat16().view(torch.uint8).view(-1, 2).T)
    return stream(b"".join(part.numpy().tobytes() for part in parts))


def dense(scale: float = 1.0, size: int = SIZE) -> torch.Tensor:
    scales = torch.full((3,), scale).bfloat16().view(torch.uint8).view(-1, 2).T.contiguous()
    return stream(bytes([1] * size) + scales.numpy().tobytes())


WHOLE = len(KEYS[0]) * (WIDTHS[0] + 2 + 4)
LIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "fewer codes": (lambda: changed(dense=dense(size=SIZE - 1)), f"dense is not a stream of {SIZE + 6} bytes"),
    "more codes": (lambda: changed(rows__0=rows(width=5)), f"rows.0 is not a stream of 2000 or {WHOLE} bytes"),
    "no stream": (lambda: changed(rows__0=torch.ones(90, dtype=torch.uint8)), "rows.0 can't be inflated"),
    "half a stream": (lambda: changed(rows__0=rows()[:-9]), "rows.0 is not a stream"),
    "something behind a stream": (lambda: changed(rows__0=stream(bytes(WHOLE), b"more")), "rows.0 is not a stream"),
    "a stream of streams": (lambda: changed(rows__0=rows().view(1, -1)), "not that of a stream of bytes"),
    "a bomb": (lambda: changed(rows__0=stream(bytes(10**8))), "rows.0 is not a stream"),
    "codes without a stream": (lambda: changed(dense=torch.ones(SIZE, dtype=torch.int8)), "dense has type I8"),
    "endless scales": (lambda: changed(rows__0=rows(torch.inf)), "rows.0 has a scale that is not finite"),
    "scales that are no numbers": (lambda: changed(dense=dense(torch.nan)), "dense has a scale that is not finite"),
    "scales below 0": (lambda: changed(rows__0=rows(-1.0)), "rows.0 has a scale that is not finite, or below 0"),
    "the largest scales": (lambda: changed(rows__0=rows(3e38)), "rows.0 is .* times"),
    "large scales": (lambda: changed(dense=dense(1e6)), "dense is 999424 times"),
    "endless tallies": (lambda: changed(rows__0=rows(tally=torch.inf)), "rows.0 is not finite"),
    "fewer than no events": (lambda: changed(rows__0=rows(tally=-1.0)), "fewer than 0 events"),
    "statistics in bytes": (
        lambda: changed(buffer__norm__mean=torch.ones(2, dtype=torch.uint8)),
        "has type torch.uint8",
    ),
    "something more": (lambda: changed(scales__0=torch.ones(400)), "unexpected or missing tensors: scales.0"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_lies_are_refused_by_name(lie: str) -> None:
    data, reason = LIES[lie]
    with pytest.raises(ModelRefused, match=reason):
        expected().check(data())


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_byte_is_refused_or_does_no_harm(place: int, value: int) -> None:
    data = bytearray(packed(published("int8")))
    data[place % len(data)] = value
    try:
        found = expected().check(bytes(data))
    except ModelRefused:
        return
    assert all(torch.isfinite(t).all() for t in (found.dense, *found.rows))
