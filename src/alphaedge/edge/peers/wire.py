"""The wire format of pulls: requests and answers as bytes.

Never pickle: tensors are safetensors, the rest is msgspec. Requests and answers name keys by their positions in a list
that both ends keep (``key_lists``). What an answer must pass before it is used is in ``answer_check``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import torch
from msgspec import Meta
from safetensors import SafetensorError, deserialize
from safetensors.torch import save as encode
from torch import Tensor

from alphaedge.core.compression import Precision
from alphaedge.core.tally import COLUMNS
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers.key_lists import KEY_BYTES, KeyList, declared_count, pack_keys, pack_places, unpack_keys
from alphaedge.edge.peers.number_format import pack_dense, pack_rows
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.errors import KeyListError, KeyListForgotten, ModelRefused, PeerRequestTooLarge

HEAD_BYTES: Final = 4096  # of a request or an answer, besides its keys and tensors
TENSOR_HEAD_BYTES: Final = 256  # what a safetensors header says about one tensor, besides its name
MIN_NUMBER_BYTES: Final = 4  # a peer sends 4 bytes per number, or fewer; more only if this edge has more itself
MAX_DIMENSIONS: Final = 16  # of a tensor
MAX_EXTENT: Final = 2**40  # of a tensor: the product of its dimensions other than 0, which bounds its strides too
TENSOR_TYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
}
Ciphers = Callable[[bytes], KeyCipher]
"""The cipher under a wire secret, by the secret's name; raises ``SecretUnknown``."""
Count = Annotated[int, Meta(ge=-(2**53), le=2**53)]  # exact as a float


class _RequestMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    schema: str
    holds: Count
    base: bytes  # name of the key list that this builds on; empty for none
    old: list[memoryview]  # keys to add to it, per table; not copied out of the message, which may be large
    fresh: list[memoryview]  # keys to add whose rows are wanted whatever their age
    secret: bytes = b""  # name of the wire secret that the keys to add are encrypted under


class AnswerHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an answer says about the publication: its schema, number and records learned."""

    schema: str
    number: Count
    records: Count


def pack_request(request: PullRequest, schema: str, base: KeyList | None, cipher: KeyCipher) -> tuple[bytes, KeyList]:
    """Encode a request on top of a key list that the peer should have; returns the new list as well.

    cipher: from this edge to that peer.
    """
    known = sum(map(len, request.keys))
    if base is None or sum(map(len, base.keys)) > 2 * known:  # more of it is gone than left: start a new list
        base = KeyList.empty(len(request.keys))
    fresh = [memoryview(pack_keys(cipher.encrypt(keys))) for keys in request.fresh]
    old = [
        memoryview(pack_keys(cipher.encrypt(keys[~torch.isin(keys, said) & ~torch.isin(keys, new)])))
        for keys, said, new in zip(request.keys, base.keys, request.fresh, strict=True)
    ]
    ask = _RequestMessage(
        schema=schema, holds=request.holds, base=base.name, old=old, fresh=fresh, secret=cipher.secret
    )
    return msgspec.msgpack.encode(ask), base.extended([old, fresh], cipher.decrypt)


def max_request_bytes(keys: int) -> int:
    """The largest request that names so many keys. Packed keys are never much longer than unpacked ones."""
    return HEAD_BYTES + (KEY_BYTES + 1) * keys


def max_answer_bytes(
    dense: Tensor,
    statistics: Mapping[str, Tensor],
    rows: Sequence[Tensor],
    listed: KeyList,
    *,
    tallies: bool = False,
    rows_only: bool = False,
) -> int:
    """The largest answer to a request. dense, statistics, rows: this edge's own, whose shapes the peer's have.

    listed: the key list of the request. The answer may have a row, and has a bit, for each of its keys.
    tallies: whether a row may have its tally behind it.
    """
    whole = {} if rows_only else {"dense": dense, **statistics}
    size = sum(max(one.nbytes, MIN_NUMBER_BYTES * one.numel()) + len(name) for name, one in whole.items())
    for own, keys in zip(rows, listed.keys, strict=True):
        width = (own.shape[1] + COLUMNS * tallies) * max(own.element_size(), MIN_NUMBER_BYTES)
        size += len(keys) * width + -(-len(keys) // 8)
    return HEAD_BYTES + TENSOR_HEAD_BYTES * (len(whole) + 2 * len(rows)) + size


def unpack_request(
    data: bytes, schema: str, tables: int, lists: Sequence[KeyList], ciphers: Ciphers, *, max_keys: int
) -> tuple[PullRequest, KeyList]:
    """Decode a request that any member may have sent; returns the new key list as well.

    lists: the key lists that the sender may build on. ciphers: from the sender to this edge. max_keys: the most that
    the new one may have, in all tables; a request that names more is refused before its keys are unpacked.
    """
    try:
        ask = msgspec.msgpack.decode(data, type=_RequestMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelRefused(f"the request can't be parsed ({error})") from None
    if ask.schema != schema:
        raise ModelRefused(f"schema {ask.schema[:64]} does not mix with this edge's schema {schema}")
    if len(ask.old) != tables or len(ask.fresh) != tables:
        raise ModelRefused(f"the request names {len(ask.old)} id tables; this edge has {tables}")
    base = {one.name: one for one in (KeyList.empty(tables), *lists)}.get(ask.base)
    if base is None:
        raise KeyListForgotten("this edge no longer has the key list; send all keys")
    keys = base.count + sum(map(declared_count, (*ask.old, *ask.fresh)))
    if keys > max_keys:
        raise PeerRequestTooLarge(f"a list of {keys} keys; allowed: at most {max_keys}")
    decrypt = ciphers(ask.secret).decrypt if keys > base.count else torch.clone  # no keys, no secret
    try:
        made = base.extended([ask.old, ask.fresh], decrypt)
        fresh = tuple(decrypt(unpack_keys(packed)) for packed in ask.fresh)
    except KeyListError as error:
        raise ModelRefused(str(error)) from None
    return PullRequest(ask.holds, made.keys, fresh), made


def pack_pull(
    pull: PulledModel,
    listed: KeyList | None,
    schema: str,
    precision: Precision = "full",
    *,
    widths: Sequence[int] = (),
    rows_only: bool = False,
) -> bytes:
    """Encode an answer. precision: that the numbers were published in, so that nothing is lost on the way.

    listed: the key list of the request; without one, the answer names its keys, which are in ascending order.
    widths: how many numbers of a row are parameters, per table; the others are its tally.
    """
    tensors = {} if rows_only else {"dense": pack_dense(pull.dense, precision)}
    for t, (rows, width) in enumerate(zip(pull.rows, widths or [r.shape[1] for r in pull.rows], strict=True)):
        tensors[f"rows.{t}"] = pack_rows(rows, width, precision)
    tensors |= {} if rows_only else {f"buffer.{name}": b for name, b in pull.statistics.items()}
    if listed is None:
        tensors |= {
            f"keys.{t}": torch.frombuffer(bytearray(pack_keys(k)), dtype=torch.uint8) for t, k in enumerate(pull.keys)
        }
    else:
        tensors |= {f"places.{t}": pack_places(listed.keys[t], keys) for t, keys in enumerate(pull.keys)}
    about = AnswerHeader(schema=schema, number=pull.number, records=pull.records)
    made = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    return encode(made, {"alphaedge": msgspec.json.encode(about).decode()})


def pack_tallies(
    pull: PulledModel, listed: KeyList, schema: str, precision: Precision, *, widths: Sequence[int]
) -> bytes:
    """Encode the tallies alone of an answer, behind so many parameters of a row. They are never quantised."""
    exact: Precision = "full" if precision == "full" else "bfloat16"
    alone, none = pull.tallies_alone(widths), [0] * len(widths)
    return pack_pull(alone, listed, schema, exact, widths=none, rows_only=True)


def unpack_answer(data: bytes) -> tuple[AnswerHeader, dict[str, Tensor]]:
    """Decode an answer. Its tensors have shapes and types that can be, but not yet those that are expected."""
    try:
        tensors = {name: _tensor(name, about) for name, about in deserialize(data)}  # type: ignore[no-untyped-call]
        length = int.from_bytes(data[:8], "little")
        header = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(header["__metadata__"], type=dict[str, str])
        return msgspec.json.decode(metadata["alphaedge"], type=AnswerHeader), tensors
    except (SafetensorError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise ModelRefused(f"the answer can't be parsed ({type(error).__name__}: {error})") from None


def _tensor(name: str, about: Mapping[str, Any]) -> Tensor:
    """A tensor of an answer. The shape is checked before: an empty one may claim any other dimensions."""
    shape, kind = about["shape"], TENSOR_TYPES.get(about["dtype"])
    if len(shape) > MAX_DIMENSIONS or math.prod(max(size, 1) for size in shape) > MAX_EXTENT:
        raise ModelRefused(f"{name[:64]} has a shape of {len(shape)} dimensions that no tensor of an answer has")
    if kind is None:
        raise ModelRefused(f"{name[:64]} has type {about['dtype']}; allowed: {', '.join(TENSOR_TYPES)}")
    numbers = torch.frombuffer(about["data"], dtype=kind) if about["data"] else torch.empty(0, dtype=kind)
    return numbers.reshape(shape)
