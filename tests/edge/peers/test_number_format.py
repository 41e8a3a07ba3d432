"""What is published in int8 arrives as it was published; codes and scales that can't be are refused by name."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alphaedge.core.compression import BLOCK, Precision, compress_dense, compress_rows, dense_bytes, row_bytes
from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers.answer_check import ExpectedAnswer
from alphaedge.edge.peers.wire import max_answer_bytes, pack_pull, pack_request
from alphaedge.errors import ModelRefused

KEYS = (torch.arange(400), torch.arange(1000, 1003))
WIDTHS = [3, 4]
SIZE = 2 * BLOCK + 2
LIST = pack_request(PullRequest(0, KEYS, KEYS), "s1", None)[1]
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
    assert found.row_bytes == sum(len(keys) * size for keys, size in zip(KEYS, each, strict=True))


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
    assert dense_bytes(SIZE, 4, "int8") == SIZE + 2 * 3


def test_a_peer_that_tells_no_tallies_is_read_by_one_that_has_them_and_the_other_way_round() -> None:
    found = expected(COLUMNS).check(packed(published("int8", 0)))
    assert [rows.shape[1] for rows in found.rows] == [width + COLUMNS for width in WIDTHS]
    found = expected(0).check(packed(published("int8", COLUMNS)))
    assert [rows.shape[1] for rows in found.rows] == WIDTHS


def changed(**tensors: torch.Tensor | None) -> bytes:
    parts = load(packed(published("int8")))
    for name, tensor in tensors.items():
        parts.pop(name.replace("__", "."), None)
        if tensor is not None:
            parts[name.replace("__", ".")] = tensor
    return save(parts, {"alphaedge": '{"schema":"s1","number":1,"records":1000}'})


def scales(value: float, count: int = 400) -> torch.Tensor:
    return torch.full((count,), value).bfloat16()


LIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "codes without scales": (lambda: changed(scales__0=None), "missing tensors: scales.0"),
    "a dense part without scales": (lambda: changed(scales__dense=None), "missing tensors: scales.dense"),
    "scales without codes": (lambda: changed(dense=torch.ones(SIZE)), "unexpected or missing tensors: scales.dense"),
    "tallies beside floating point": (
        lambda: changed(rows__0=torch.ones(400, 5), scales__0=None),
        "unexpected or missing tensors: tallies.0",
    ),
    "fewer codes": (lambda: changed(dense=torch.ones(SIZE - 1, dtype=torch.int8)), "dense has shape"),
    "more columns": (lambda: changed(rows__0=torch.ones(400, 5, dtype=torch.int8)), "rows.0 has shape"),
    "codes that are no matrix": (lambda: changed(rows__0=torch.ones(1200, dtype=torch.int8)), "rows.0 has shape"),
    "fewer scales": (lambda: changed(scales__0=scales(1.0, 399)), r"scales.0 has shape \(399,\), not \(400,\)"),
    "one scale for all": (lambda: changed(scales__dense=scales(1.0, 1)), "scales.dense has shape"),
    "scales of another type": (lambda: changed(scales__0=torch.ones(400)), "scales.0 has type torch.float32"),
    "scales that are whole": (lambda: changed(scales__0=torch.ones(400, dtype=torch.int8)), "scales.0 has type"),
    "endless scales": (lambda: changed(scales__0=scales(torch.inf)), "scales.0 is not finite"),
    "scales that are no numbers": (lambda: changed(scales__0=scales(torch.nan)), "scales.0 is not finite"),
    "scales below 0": (lambda: changed(scales__0=scales(-1.0)), "scales.0 has a scale below 0"),
    "the largest scales": (lambda: changed(scales__0=scales(3e38)), "rows.0 is inf times"),
    "large scales": (lambda: changed(scales__dense=scales(1e6, 3)), "dense is .* times as large"),
    "tallies of another shape": (lambda: changed(tallies__0=torch.ones(400, 3).bfloat16()), "tallies.0 has shape"),
    "tallies in int8": (lambda: changed(tallies__0=torch.ones(400, 2, dtype=torch.int8)), "tallies.0 has type"),
    "endless tallies": (lambda: changed(tallies__0=torch.full((400, 2), torch.inf).bfloat16()), "not finite"),
    "fewer than no events": (lambda: changed(tallies__0=-torch.ones(400, 2).bfloat16()), "fewer than 0 events"),
    "statistics in int8": (lambda: changed(buffer__norm__mean=torch.ones(2, dtype=torch.int8)), "has type torch.int8"),
    "scales of another table": (lambda: changed(scales__7=scales(1.0)), "unexpected or missing tensors: scales.7"),
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
