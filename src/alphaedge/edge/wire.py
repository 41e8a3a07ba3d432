"""Models on the wire: a request and its answer as bytes, and everything that is checked before an answer is believed.

Never pickle: tensors are safetensors, the rest is msgspec. What comes from another edge is refused, with a reason, if
it is of another schema, has other shapes or types, is not finite, is larger than is plausible, is older than what is
held, or has rows that nobody asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode
from safetensors.torch import save as encode
from torch import Tensor

from alphaedge.edge.exchange import Pull, Request
from alphaedge.errors import AlphaEdgeError

# How many times as large as the own parameters a peer's may be, by their root mean square, before nobody believes it.
LARGEST: Final = 100.0
MOST_KEYS: Final = 50_000_000


class Refused(AlphaEdgeError):
    """What a peer sent is not taken; says why."""


class _Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True):
    schema: str
    holds: int
    keys: list[bytes]  # int64, little-endian
    fresh: list[bytes]


class _About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    number: int
    records: int


def pack_request(request: Request, schema: str) -> bytes:
    """A request as bytes."""
    keys, fresh = ([t.numpy().astype("<i8").tobytes() for t in parts] for parts in (request.keys, request.fresh))
    return msgspec.msgpack.encode(_Ask(schema=schema, holds=request.holds, keys=keys, fresh=fresh))


def unpack_request(data: bytes, schema: str, tables: int) -> Request:
    """A request from bytes that anybody may have sent."""
    try:
        ask = msgspec.msgpack.decode(data, type=_Ask)
    except msgspec.MsgspecError as error:
        raise Refused(f"the request can't be read ({error})") from None
    if ask.schema != schema:
        raise Refused(f"it has schema {ask.schema}, and this edge {schema}: they do not mix")
    if len(ask.keys) != tables or len(ask.fresh) != tables:
        raise Refused(f"it asks for {len(ask.keys)} id tables, and there are {tables}")
    return Request(ask.holds, tuple(map(_keys, ask.keys)), tuple(map(_keys, ask.fresh)))


def _keys(raw: bytes) -> Tensor:
    if len(raw) % 8 or len(raw) > 8 * MOST_KEYS:
        raise Refused(f"{len(raw)} bytes are no list of keys")
    return torch.frombuffer(bytearray(raw), dtype=torch.int64) if raw else torch.empty(0, dtype=torch.int64)


def pack_pull(pull: Pull, schema: str, *, half: bool = False) -> bytes:
    """An answer as bytes; ``half``: parameters as bfloat16, half the size and three digits."""
    tensors = {"dense": pull.dense, **{f"buffer.{name}": b for name, b in pull.statistics.items()}}
    tensors |= {f"rows.{t}": rows for t, rows in enumerate(pull.rows)}
    if half:
        tensors = {n: x.bfloat16() if x.is_floating_point() else x for n, x in tensors.items()}
    tensors |= {f"keys.{t}": keys for t, keys in enumerate(pull.keys)}
    about = _About(schema=schema, number=pull.number, records=pull.records)
    made = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    return encode(made, {"alphaedge": msgspec.json.encode(about).decode()})


@final
@dataclass(frozen=True)
class Expected:
    """What an answer must look like: the own model's schema, shapes and sizes, and what was asked for."""

    schema: str
    dense: Tensor
    statistics: Mapping[str, Tensor]
    rows: Sequence[Tensor]  # of each id table, those that the edge has
    request: Request

    def check(self, data: bytes) -> Pull:
        """The answer, if it is to be believed."""
        about, tensors = _read(data)
        if about.schema != self.schema:
            raise Refused(f"it is of schema {about.schema}, and this edge has {self.schema}")
        if about.number < max(1, self.request.holds) or about.records < 0:
            raise Refused(
                f"publication {about.number} after {about.records} records; {self.request.holds} is held already"
            )
        tables = range(len(self.rows))
        names = {"dense", *(f"buffer.{n}" for n in self.statistics)}
        names |= {f"{what}.{t}" for t in tables for what in ("keys", "rows")}
        if set(tensors) != names:
            raise Refused(f"it has {', '.join(sorted(set(tensors) ^ names))} too many or too few")
        shapes = {"dense": self.dense.shape, **{f"buffer.{n}": b.shape for n, b in self.statistics.items()}}
        for t in tables:
            shapes[f"rows.{t}"] = torch.Size([len(tensors[f"keys.{t}"]), self.rows[t].shape[1]])
            self._check_keys(t, tensors[f"keys.{t}"])
        own = {"dense": size(self.dense), **{f"rows.{t}": max(size(self.rows[t]), size(self.dense)) for t in tables}}
        for name, shape in shapes.items():
            _check_numbers(name, tensors[name], shape, own.get(name))
        kind = self.dense.dtype
        return Pull(
            about.number,
            about.records,
            tensors["dense"].to(kind),
            {n: tensors[f"buffer.{n}"].to(b.dtype) for n, b in self.statistics.items()},
            tuple(tensors[f"keys.{t}"] for t in tables),
            tuple(tensors[f"rows.{t}"].to(kind) for t in tables),
        )

    def _check_keys(self, table: int, keys: Tensor) -> None:
        if keys.dtype != torch.int64 or keys.dim() != 1 or len(set(keys.tolist())) < len(keys):
            raise Refused(f"keys.{table} is no list of different keys")
        if not bool(torch.isin(keys, self.request.keys[table]).all()):
            raise Refused(f"keys.{table} has keys that were not asked for")


def _read(data: bytes) -> tuple[_About, dict[str, Tensor]]:
    try:
        tensors = decode(data)
        length = int.from_bytes(data[:8], "little")
        header = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(header["__metadata__"], type=dict[str, str])
        return msgspec.json.decode(metadata["alphaedge"], type=_About), tensors
    except (SafetensorError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise Refused(f"it can't be read ({type(error).__name__}: {error})") from None


def _check_numbers(name: str, tensor: Tensor, shape: torch.Size, own: float | None) -> None:
    if tensor.shape != shape:
        raise Refused(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
    if not tensor.is_floating_point():
        raise Refused(f"{name} has type {tensor.dtype}, not floating point")
    if not bool(torch.isfinite(tensor).all()):
        raise Refused(f"{name} is not finite")
    if own is not None and size(tensor) > LARGEST * max(own, 1e-3):
        raise Refused(f"{name} is {size(tensor) / max(own, 1e-3):.0f} times as large as the own one: implausible")


def size(tensor: Tensor) -> float:
    """How large numbers are: their root mean square."""
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0
