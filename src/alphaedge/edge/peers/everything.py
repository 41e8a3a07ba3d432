"""Requests for everything: an edge with privacy on names no ids, so that no request tells of its users.

The answer has the dense part and all rows that may be told and are newer than what the asker holds, and names the keys
of these rows itself. An edge without privacy does not say which ids it has rows of: its answer has none.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from torch import Tensor

from alphaedge.edge.peers.key_lists import KEY_BYTES
from alphaedge.edge.peers.wire import HEAD_BYTES, MIN_NUMBER_BYTES, TENSOR_HEAD_BYTES, Count
from alphaedge.errors import ModelRefused

MAX_REQUEST_BYTES: Final = HEAD_BYTES
ROUTE: Final = "everything"
Rows = Annotated[int, Meta(ge=0, le=2**53)]


class _EverythingMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    schema: str
    holds: Count  # number of the publication that the asker holds
    most: Rows  # rows of a table that it takes


def pack_request(schema: str, holds: int, most: int) -> bytes:
    """Encode a request for what is newer than publication ``holds``, with at most so many rows of each id table."""
    return msgspec.msgpack.encode(_EverythingMessage(schema=schema, holds=holds, most=most))


def unpack_request(data: bytes, schema: str) -> tuple[int, int]:
    """Decode a request that any member may have sent: the publication that it holds, and the most rows of a table."""
    try:
        ask = msgspec.msgpack.decode(data, type=_EverythingMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelRefused(f"the request can't be parsed ({error})") from None
    if ask.schema != schema:
        raise ModelRefused(f"schema {ask.schema[:64]} does not mix with this edge's schema {schema}")
    return ask.holds, ask.most


def most_rows(capacities: Sequence[int]) -> int:
    """The most rows of a table that an edge takes: those that it has room for, and as many of ids that are new."""
    return 2 * max(capacities, default=0)


def max_answer_bytes(
    dense: Tensor, statistics: Mapping[str, Tensor], rows: Sequence[Tensor], most: int, told: Sequence[int]
) -> int:
    """The largest answer to a request. dense, statistics, rows: this edge's own, whose types the peer's have.

    told: numbers of a row that a peer may send, per table.
    """
    whole = {"dense": dense, **statistics}
    size = sum(max(one.nbytes, MIN_NUMBER_BYTES * one.numel()) + len(name) for name, one in whole.items())
    for own, numbers in zip(rows, told, strict=True):
        size += most * (numbers * max(own.element_size(), MIN_NUMBER_BYTES) + KEY_BYTES + 1)
    return HEAD_BYTES + TENSOR_HEAD_BYTES * (len(whole) + 2 * len(rows)) + size
