"""What one edge packs another unpacks; what is wrong, foreign or hostile is refused, and by name."""

import pickle
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alphaedge.core.compression import Precision, compress_dense, compress_rows
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers import key_lists, wire
from alphaedge.edge.peers.answer_check import MAX_SIZE_RATIO, ExpectedAnswer
from alphaedge.edge.peers.key_lists import KeyList, ReceivedLists, max_keys, pack_keys, unpack_keys
from alphaedge.edge.peers.wire import max_answer_bytes, max_request_bytes, pack_pull, pack_request, unpack_request
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.trust.wire_secrets import WireSecret
from alphaedge.errors import KeyListError, KeyListForgotten, ModelRefused, PeerRequestTooLarge

KEYS = torch.tensor([3, 7, 2**47])
REQUEST = PullRequest(4, (KEYS, torch.tensor([5])), (KEYS[:1], torch.tensor([], dtype=torch.int64)))
PULL = PulledModel(
    6,
    1000,
    torch.randn(10),
    {"norm.mean": torch.randn(2)},
    (KEYS[1:], torch.tensor([], dtype=torch.int64)),
    (torch.randn(2, 3), torch.empty(0, 4)),
)
FIRST = b"a secret of the fleet"
CIPHER = KeyCipher(WireSecret(FIRST, FIRST), "berlin", "boston")
DATA, LIST = pack_request(REQUEST, "s1", None, CIPHER)
ROWS = [torch.ones(9, 3), torch.ones(9, 4)]
EXPECTED = ExpectedAnswer(
    "s1", torch.ones(10), {"norm.mean": torch.zeros(2)}, ROWS, [r.shape[1] for r in ROWS], REQUEST.holds, LIST
)


def unpack(data: bytes, lists: Sequence[KeyList] = (), max_keys: int = 100) -> tuple[PullRequest, KeyList]:
    return unpack_request(data, "s1", 2, lists, lambda _: CIPHER, max_keys=max_keys)


def packed(pull: PulledModel, schema: str = "s1", precision: Precision = "full") -> bytes:
    return pack_pull(pull, LIST, schema, precision)


def same(one: PulledModel, two: PulledModel, tolerance: float = 0.0) -> bool:
    pairs = [(one.dense, two.dense), *zip(one.keys, two.keys, strict=True), *zip(one.rows, two.rows, strict=True)]
    pairs += [(one.statistics[name], two.statistics[name]) for name in one.statistics]
    close = all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in pairs)
    return (one.number, one.records) == (two.number, two.records) and close


def test_an_answer_arrives_as_it_was_sent() -> None:
    assert same(EXPECTED.check(packed(PULL)), PULL)


def test_what_is_published_in_bfloat16_arrives_in_fewer_bytes_as_it_was_published() -> None:
    rounded = replace(
        PULL,
        dense=compress_dense(PULL.dense, PULL.dense[:0], "bfloat16").published,
        rows=tuple(compress_rows(rows, rows[:, :0], rows.shape[1], "bfloat16").published for rows in PULL.rows),
    )
    whole, half = packed(rounded), packed(rounded, precision="bfloat16")
    assert len(half) < len(whole)
    found = EXPECTED.check(half)
    assert same(found, rounded), "neither keys nor running statistics are ever rounded"
    assert same(found, PULL, 0.01)
    assert found.dense.dtype == torch.float32


SETS = st.lists(st.sets(st.integers(0, 2**48 - 1)), min_size=2, max_size=2)


def tensors(sets: list[set[int]]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(sorted(one), dtype=torch.int64) for one in sets)


def as_sets(parts: tuple[torch.Tensor, ...]) -> list[set[int]]:
    return [set(part.tolist()) for part in parts]


@given(st.sets(st.integers(0, 2**61)))
def test_a_set_of_keys_arrives_as_it_was_sent(keys: set[int]) -> None:
    assert unpack_keys(pack_keys(torch.tensor(list(keys), dtype=torch.int64))).tolist() == sorted(keys)


def test_a_set_of_keys_takes_fewer_bytes_than_its_keys() -> None:
    keys = torch.randint(2**47, (4000,), generator=torch.Generator().manual_seed(0)).unique()
    assert len(pack_keys(keys)) < 5.2 * len(keys)


@given(st.lists(SETS, min_size=1, max_size=4), st.integers(-1, 2**40))
def test_a_conversation_says_each_key_once(rounds: list[list[set[int]]], holds: int) -> None:
    """Whatever the asker knows and has known only since the last time, the other end hears."""
    mine: KeyList | None = None
    theirs: list[KeyList] = []
    known: list[set[int]] = [set(), set()]
    for fresh in rounds:
        known = [old | new for old, new in zip(known, fresh, strict=True)]
        data, mine = pack_request(PullRequest(holds, tensors(known), tensors(fresh)), "s1", mine, CIPHER)
        found, made = unpack(data, theirs)
        theirs = [*theirs, made][-2:]
        assert made.name == mine.name
        assert (found.holds, as_sets(found.keys), as_sets(found.fresh)) == (holds, known, fresh)
        assert all(torch.equal(a, b) for a, b in zip(made.keys, mine.keys, strict=True))


def test_who_has_forgotten_the_list_says_so_and_is_told_all_again() -> None:
    data, _ = pack_request(REQUEST, "s1", LIST, CIPHER)
    with pytest.raises(KeyListForgotten, match="send all keys"):
        unpack(data)
    again, _ = pack_request(REQUEST, "s1", None, CIPHER)
    found, _ = unpack(again)
    assert as_sets(found.keys) == as_sets(REQUEST.keys)
    assert as_sets(found.fresh) == as_sets(REQUEST.fresh), "of the others it still holds the rows"


def test_a_list_that_is_mostly_gone_is_begun_anew() -> None:
    data, listed = pack_request(PullRequest(4, (KEYS[:1], KEYS[:0]), (KEYS[:0], KEYS[:0])), "s1", LIST, CIPHER)
    assert [len(k) for k in listed.keys] == [1, 0]
    unpack(data)


def changed(**tensors: torch.Tensor | None) -> bytes:
    """The answer with other tensors, or without some."""
    data = packed(PULL)
    parts = load(data) | {n.replace("__", "."): t for n, t in tensors.items() if t is not None}
    for name in (n.replace("__", ".") for n, t in tensors.items() if t is None):
        del parts[name]
    about = '{"schema":"s1","number":6,"records":1000}'
    return save(parts, {"alphaedge": about})


LIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "another schema": (lambda: packed(PULL, "s2"), "schema s2"),
    "an old publication again": (lambda: packed(replace(PULL, number=3)), "publication 3 .* 4 is already held"),
    "nothing published": (lambda: packed(replace(PULL, number=0)), "publication 0"),
    "fewer records than none": (lambda: packed(replace(PULL, records=-1)), "-1 records"),
    "not a number": (lambda: changed(dense=torch.full((10,), float("nan"))), "dense is not finite"),
    "endless rows": (lambda: changed(rows__0=torch.full((2, 3), float("inf"))), "rows.0 is not finite"),
    "another shape": (lambda: changed(dense=torch.ones(11)), r"dense has shape \(11,\), not \(10,\)"),
    "other rows": (lambda: changed(rows__0=torch.ones(2, 4)), "rows.0 has shape"),
    "whole numbers": (lambda: changed(dense=torch.ones(10, dtype=torch.int64)), "dense has type I64"),
    "bytes for numbers": (lambda: changed(buffer__norm__mean=torch.ones(2, dtype=torch.uint8)), "has type torch.uint8"),
    "huge": (lambda: changed(dense=torch.full((10,), 1.1 * MAX_SIZE_RATIO)), "110 times as large"),
    "huge rows": (lambda: changed(rows__0=torch.full((2, 3), 1e6)), "rows.0 is 1000000 times"),
    "no dense part": (lambda: changed(dense=None), "missing tensors: dense"),
    "something more": (lambda: changed(virus=torch.ones(1)), "missing tensors: virus"),
    "other places": (lambda: changed(places__0=torch.tensor([0b11100000], dtype=torch.uint8)), "rows.0 has shape"),
    "places behind the end": (lambda: changed(places__0=torch.tensor([1], dtype=torch.uint8)), "behind the end"),
    "too many places": (lambda: changed(places__0=torch.zeros(2, dtype=torch.uint8)), "places of a list of 3"),
    "places that are no places": (lambda: changed(places__0=torch.tensor([0.5])), "places of a list of 3"),
    "numbers that are too large": (
        lambda: changed(buffer__norm__mean=torch.full((2,), 1e300, dtype=torch.float64)),
        "can't hold",
    ),
    "statistics that no number has": (
        lambda: changed(buffer__norm__mean=torch.full((2,), 1e30)),
        "allowed: at most 1e",
    ),
    "half a reply": (lambda: packed(PULL)[:-5], "can't be parsed"),
    "nothing": (lambda: b"", "can't be parsed"),
    "garbage": (lambda: bytes(range(256)) * 4, "can't be parsed"),
    "a pickle": (lambda: pickle.dumps({"dense": [1.0]}), "can't be parsed"),
    "a header that lies": (lambda: (2**60).to_bytes(8, "little") + b"{}", "can't be parsed"),
    "no word about itself": (lambda: save(load(packed(PULL))), "can't be parsed"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_lies_are_refused_by_name(lie: str) -> None:
    data, reason = LIES[lie]
    with pytest.raises(ModelRefused, match=reason):
        EXPECTED.check(data())


@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(ModelRefused):
        EXPECTED.check(data)
    with pytest.raises(ModelRefused):
        unpack(data)
    with pytest.raises(KeyListError):
        unpack_keys(data)


def test_a_list_does_not_grow_without_end() -> None:
    data, listed = pack_request(PullRequest(4, (torch.arange(8), KEYS[:0]), (KEYS[:0], KEYS[:0])), "s1", None, CIPHER)
    _, theirs = unpack(data, max_keys=10)
    more, _ = pack_request(PullRequest(4, (torch.arange(12), KEYS[:0]), (KEYS[:0], KEYS[:0])), "s1", listed, CIPHER)
    with pytest.raises(PeerRequestTooLarge, match="a list of 12 keys; allowed: at most 10"):
        unpack(more, [theirs], max_keys=10)


def test_keys_are_counted_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 million keys in a row take 156 KB of a request."""

    def unpacked(data: bytes) -> torch.Tensor:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(key_lists, "unpack_keys", unpacked)
    monkeypatch.setattr(wire, "unpack_keys", unpacked)
    none = pack_keys(KEYS[:0])
    many = (20_000_000).to_bytes(4, "little") + zlib.compress(bytes(1000))
    for old, fresh in (([many, none], [none, none]), ([none, none], [none, many])):
        message = msgspec.msgpack.encode(["s1", 4, b"", old, fresh])
        with pytest.raises(PeerRequestTooLarge, match="a list of 20000000 keys; allowed: at most 400000"):
            unpack(message, max_keys=max_keys([100_000]))


def test_the_largest_request_fits_into_its_limit() -> None:
    keys = torch.randint(2**48, (10_000,), generator=torch.Generator().manual_seed(0)).unique()
    data, _ = pack_request(PullRequest(4, (keys, keys), (KEYS[:0], KEYS[:0])), "s1", None, CIPHER)
    assert len(data) <= max_request_bytes(2 * len(keys)) < 2 * len(data)


@pytest.mark.parametrize("rows_only", [False, True])
def test_the_largest_answer_fits_into_its_limit(rows_only: bool) -> None:
    """An answer with a row for every key that was listed."""
    many = PullRequest(0, (torch.arange(5000), torch.arange(3000)), (KEYS[:0], KEYS[:0]))
    _, listed = pack_request(many, "s1", None, CIPHER)
    rows = (torch.randn(5000, 3), torch.randn(3000, 4))
    pull = PulledModel(6, 2**53, torch.randn(10), {"norm.mean": torch.randn(2)}, many.keys, rows)
    answer = pack_pull(pull, listed, "s1", rows_only=rows_only)
    size = max_answer_bytes(torch.ones(10), {"norm.mean": torch.zeros(2)}, ROWS, listed, rows_only=rows_only)
    assert len(answer) <= size < 1.1 * len(answer)


def test_lists_of_silent_peers_go_first_when_there_are_too_many() -> None:
    lists = ReceivedLists(max_bytes=100_000)
    for peer in ("ann", "bob", "ann", "cem", "ann", "bob", "cem"):
        lists.keep(peer, KeyList((torch.arange(4000),), peer.encode()))
    assert [len(lists.of(peer)) for peer in ("ann", "bob", "cem")] == [0, 1, 1]
    lists.keep("dora", KeyList((torch.arange(40_000),), b"dora"))
    assert len(lists.of("dora")) == 1, "a single one may be larger"
    assert not lists.of("cem")


def test_a_bomb_is_not_inflated() -> None:
    bomb = (10).to_bytes(4, "little") + zlib.compress(bytes(10**8))
    with pytest.raises(KeyListError, match="other than 80 bytes"):
        unpack_keys(bomb)


@pytest.mark.parametrize("missing", [1, 5, 11])
def test_a_set_of_keys_that_ends_early_is_refused(missing: int) -> None:
    with pytest.raises(KeyListError):
        unpack_keys(pack_keys(KEYS)[:-missing])


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_damaged_byte_is_refused_or_does_no_harm(place: int, value: int) -> None:
    data = bytearray(packed(PULL))
    data[place % len(data)] = value
    try:
        found = EXPECTED.check(bytes(data))
    except ModelRefused:
        return
    assert all(torch.isfinite(t).all() for t in (found.dense, *found.rows))


def test_a_request_of_another_schema_or_for_other_tables_is_refused() -> None:
    with pytest.raises(ModelRefused, match="schema s2"):
        unpack(pack_request(REQUEST, "s2", None, CIPHER)[0])
    with pytest.raises(ModelRefused, match="2 id tables; this edge has 1"):
        unpack_request(DATA, "s1", 1, [], lambda _: CIPHER, max_keys=100)
