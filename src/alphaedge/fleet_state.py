"""The state in which a simulated fleet ended, as a file: what a live fleet needs to go on from there.

Of each edge it has what the edge was at the end of its last round, and the events since then, which a live edge learns
from its journal when it starts. So a fleet that starts from the file is, to rounding, the one that was simulated.

Tensors are in safetensors format, everything else is MessagePack in a tensor of bytes. Reading a file runs no code.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from alphaedge.core.fields import Field
from alphaedge.core.links import Ear, Link
from alphaedge.data.stream import Task
from alphaedge.errors import InvalidValue

VERSION: Final = 1
STATE_FILE: Final = "state.safetensors"  # in a results folder
_PLAIN: Final = "plain"
EncodedState = bytes  # of a file


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What the data are: their name, the task, the fields, and the values that numbers stand for (``Dataset``).

    from_python: whether they came as an object, which no file can name.
    """

    name: str
    task: Task
    fields: tuple[Field, ...]
    label_scale: float
    last: str | None = None
    relative: bool = False
    columns: dict[str, str] = {}
    classes: tuple[str, str] | None = None
    from_python: bool = False
    values: dict[str, tuple[str, ...]]


class EdgeState(msgspec.Struct, frozen=True, kw_only=True):
    """One edge at the end of its last round, as far as it is no tensor. Peers go by their place in the fleet.

    rounds: whether it had a round at all; without one, everything is in its events. batches: revealed until then.
    waiting: how many batches, the first of the events, the mixed model has still to train on. shares: of the
    neighbours, as the edge announced them.
    """

    name: str
    rounds: bool
    batches: int = 0
    waiting: int = 0
    aggregations: int = 0
    records: int = 0
    publication: int = 0
    published_records: int = 0
    own: Link | None = None
    neighbours: tuple[int, ...] = ()
    known: dict[int, Link] = {}
    others: tuple[int, ...] = ()  # that are heard beside the neighbours
    ears: dict[int, Ear] = {}
    shares: dict[int, float] = {}


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    method: str
    builtin: str | None
    batch_size: int
    description: Description
    edges: tuple[EdgeState, ...]


@final
class FleetState(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated fleet at its end. builtin: the name of its base model; None for one of the user's own.

    tensors: by edge and name. ``mixed.*`` and ``home.*`` are its models, ``rows.T`` the values, by number, that have a
    row in id table T, the least recently used first; ``residual`` and ``residual.T`` are what rounding has left out of
    the last publication (core.compression); ``events.FIELD``, ``events.labels`` are the events since.
    """

    method: str
    builtin: str | None
    batch_size: int
    description: Description
    edges: tuple[EdgeState, ...]
    tensors: tuple[Mapping[str, Tensor], ...]

    def encode(self) -> EncodedState:
        """The state as the bytes of a file."""
        plain = _Plain(
            version=VERSION,
            method=self.method,
            builtin=self.builtin,
            batch_size=self.batch_size,
            description=self.description,
            edges=self.edges,
        )
        found = {_PLAIN: torch.frombuffer(bytearray(msgspec.msgpack.encode(plain)), dtype=torch.uint8)}
        for edge, tensors in enumerate(self.tensors):
            found |= {f"{edge}.{name}": tensor.contiguous() for name, tensor in tensors.items()}
        return save(found)

    @classmethod
    def decode(cls, data: bytes, where: str) -> "FleetState":
        """Read the bytes of a file; where: what to call it in errors."""
        try:
            tensors = load(data)
            plain = msgspec.msgpack.decode(tensors.pop(_PLAIN).numpy().tobytes(), type=_Plain)
            if plain.version != VERSION:
                raise InvalidValue("state", f"version {plain.version} in {where}", f"version {VERSION}")
            parts: list[dict[str, Tensor]] = [{} for _ in plain.edges]
            for name, tensor in tensors.items():
                edge, _, rest = name.partition(".")
                parts[int(edge)][rest] = tensor
        except (SafetensorError, msgspec.MsgspecError, LookupError, ValueError) as error:
            if isinstance(error, InvalidValue):
                raise
            raise InvalidValue("state", where, f"a state that `alphaedge simulate --out` wrote ({error})") from error
        return cls(
            method=plain.method,
            builtin=plain.builtin,
            batch_size=plain.batch_size,
            description=plain.description,
            edges=plain.edges,
            tensors=tuple(parts),
        )

    @classmethod
    def read(cls, path: Path) -> "FleetState":
        """Read a file."""
        try:
            data = path.read_bytes()
        except OSError as error:
            allowed = f"a results folder of `alphaedge simulate --out` with {STATE_FILE} in it ({error.strerror})"
            raise InvalidValue("state", str(path), allowed) from error
        return cls.decode(data, str(path))

    @property
    def names(self) -> Sequence[str]:
        """The names of the edges."""
        return [edge.name for edge in self.edges]
