"""Models on the wire: requests and answers as bytes, and every check that a peer's model must pass.

Never pickle: tensors are safetensors, the rest is msgspec. A peer's model is refused, with a reason, if it has another
schema, other shapes or types, numbers that are not finite or implausibly large, if it is older than the one that is
held, or has rows that were not asked for.

Requests and answers name keys by their positions in a list that both ends keep (``key_lists``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, final

import msgspec
import torch
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.peers.key_lists import KeyList, pack_keys, pack_places, unpack_keys, unpack_places
from alphaedge.errors import KeyListError, KeyListForgotten, ModelRefused

# How many times larger than the own parameters a peer's may be, by their root mean square.
MAX_SIZE_RATIO: Final = 100.0
DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Count = Annotated[int, Meta(ge=-(2**53), le=2**53)]  # exact as a float


class _RequestMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    schema: str
    holds: Count
    base: bytes  # name of the key list that this builds on; empty for none
    old: list[bytes]  # keys to add to it, per table
    fresh: list[bytes]  # keys to add whose rows are wanted whatever their age


class _AnswerHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    number: Count
    records: Count


def pack_request(request: PullRequest, schema: str, base: KeyList | None) -> tuple[bytes, KeyList]:
    """Encode a request on top of a key list that the peer should have; returns the new list as well."""
    known = sum(map(len, request.keys))
    if base is None or sum(map(len, base.keys)) > 2 * known:  # more of it is gone than left: start a new list
        base = KeyList.empty(len(request.keys))
    fresh = [pack_keys(keys) for keys in request.fresh]
    old = [
        pack_keys(keys[~torch.isin(keys, said) & ~torch.isin(keys, new)])
        for keys, said, new in zip(request.keys, base.keys, request.fresh, strict=True)
    ]
    ask = _RequestMessage(schema=schema, holds=request.holds, base=base.name, old=old, fresh=fresh)
    return msgspec.msgpack.encode(ask), base.extended([old, fresh])


def unpack_request(data: bytes, schema: str, tables: int, lists: Sequence[KeyList]) -> tuple[PullRequest, KeyList]:
    """Decode a request that any member may have sent; returns the new key list as well.

    lists: the key lists that the sender may build on.
    """
    try:
        ask = msgspec.msgpack.decode(data, type=_RequestMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelRefused(f"the request can't be parsed ({error})") from None
    if ask.schema != schema:
        raise ModelRefused(f"schema {ask.schema} does not mix with this edge's schema {schema}")
    if len(ask.old) != tables or len(ask.fresh) != tables:
        raise ModelRefused(f"the request names {len(ask.old)} id tables; this edge has {tables}")
    base = {one.name: one for one in (KeyList.empty(tables), *lists)}.get(ask.base)
    if base is None:
        raise KeyListForgotten("this edge no longer has the key list; send all keys")
    try:
        made = base.extended([ask.old, ask.fresh])
        fresh = tuple(unpack_keys(packed) for packed in ask.fresh)
    except KeyListError as error:
        raise ModelRefused(str(error)) from None
    return PullRequest(ask.holds, made.keys, fresh), made


def pack_pull(
    pull: PulledModel, listed: KeyList, schema: str, *, bfloat16: bool = False, rows_only: bool = False
) -> bytes:
    """Encode an answer. bfloat16: send parameters in half the size, with three digits."""
    tensors = {"dense": pull.dense, **{f"buffer.{name}": b for name, b in pull.statistics.items()}}
    tensors = {} if rows_only else tensors
    tensors |= {f"rows.{t}": rows for t, rows in enumerate(pull.rows)}
    if bfloat16:
        tensors = {n: x.bfloat16() if x.is_floating_point() else x for n, x in tensors.items()}
    tensors |= {f"places.{t}": pack_places(listed.keys[t], keys) for t, keys in enumerate(pull.keys)}
    about = _AnswerHeader(schema=schema, number=pull.number, records=pull.records)
    made = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    return encode(made, {"alphaedge": msgspec.json.encode(about).decode()})


@final
@dataclass(frozen=True)
class ExpectedAnswer:
    """What an answer must look like: schema, shapes and sizes of the own model, and what was asked for."""

    schema: str
    dense: Tensor
    statistics: Mapping[str, Tensor]
    rows: Sequence[Tensor]  # the edge's own rows, per id table
    holds: int  # number of the publication that the edge holds
    listed: KeyList  # the key list of the request
    rows_only: bool = False  # rows without the dense part

    def check(self, data: bytes) -> PulledModel:
        """Decode an answer; ``ModelRefused`` if it is not acceptable."""
        about, tensors = _read(data)
        if about.schema != self.schema:
            raise ModelRefused(f"schema {about.schema} does not mix with this edge's schema {self.schema}")
        if about.number < max(1, self.holds) or about.records < 0:
            raise ModelRefused(f"publication {about.number} with {about.records} records; {self.holds} is already held")
        tables = range(len(self.rows))
        shapes = {"dense": self.dense.shape, **{f"buffer.{n}": b.shape for n, b in self.statistics.items()}}
        shapes = {} if self.rows_only else shapes
        names = set(shapes)
        names |= {f"{what}.{t}" for t in tables for what in ("places", "rows")}
        if set(tensors) != names:
            raise ModelRefused(f"unexpected or missing tensors: {', '.join(sorted(set(tensors) ^ names))}")
        keys = [self._keys(t, tensors[f"places.{t}"]) for t in tables]
        for t in tables:
            shapes[f"rows.{t}"] = torch.Size([len(keys[t]), self.rows[t].shape[1]])
        own = {"dense": rms(self.dense), **{f"rows.{t}": max(rms(self.rows[t]), rms(self.dense)) for t in tables}}
        for name, shape in shapes.items():
            _check_numbers(name, tensors[name], shape, own.get(name))
        for name, own_buffer in self.statistics.items():
            if f"buffer.{name}" in shapes and not bool(
                torch.isfinite(tensors[f"buffer.{name}"].to(own_buffer.dtype)).all()
            ):
                raise ModelRefused(f"buffer.{name} has numbers that {own_buffer.dtype} can't hold")
        kind = self.dense.dtype
        return PulledModel(
            about.number,
            about.records,
            tensors["dense"].to(kind) if "dense" in shapes else self.dense[:0],
            {n: tensors[f"buffer.{n}"].to(b.dtype) for n, b in self.statistics.items() if f"buffer.{n}" in shapes},
            tuple(keys),
            tuple(tensors[f"rows.{t}"].to(kind) for t in tables),
            sum(tensors[f"rows.{t}"].nbytes for t in tables),
        )

    def _keys(self, table: int, places: Tensor) -> Tensor:
        try:
            return unpack_places(self.listed.keys[table], places)
        except KeyListError as error:
            raise ModelRefused(f"places.{table}: {error}") from None


def _read(data: bytes) -> tuple[_AnswerHeader, dict[str, Tensor]]:
    try:
        tensors = decode(data)
        length = int.from_bytes(data[:8], "little")
        header = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(header["__metadata__"], type=dict[str, str])
        return msgspec.json.decode(metadata["alphaedge"], type=_AnswerHeader), tensors
    except (SafetensorError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise ModelRefused(f"the answer can't be parsed ({type(error).__name__}: {error})") from None


def _check_numbers(name: str, tensor: Tensor, shape: torch.Size, own: float | None) -> None:
    if tensor.shape != shape:
        raise ModelRefused(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
    if tensor.dtype not in DTYPES:
        raise ModelRefused(f"{name} has type {tensor.dtype}, not floating point of 2, 4 or 8 bytes")
    if not bool(torch.isfinite(tensor).all()):
        raise ModelRefused(f"{name} is not finite")
    if own is not None and rms(tensor) > MAX_SIZE_RATIO * max(own, 1e-3):
        raise ModelRefused(f"{name} is {rms(tensor) / max(own, 1e-3):.0f} times as large as the own one: implausible")


def rms(tensor: Tensor) -> float:
    """The root mean square of a tensor."""
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0
