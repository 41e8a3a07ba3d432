"""Long tensors that are made part by part, in memory or in a file.

A file serves fleets whose events do not fit into memory: the operating system reads what is needed, and forgets it
when it needs the room.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, final

import torch
from torch import Tensor

from alphaedge.data.stream import Stream


class Parts(Protocol):
    """A tensor in the making."""

    def add(self, part: Tensor) -> None:
        """Put a part after those that are there; all are alike but in their first dimension."""
        ...

    def joined(self) -> Tensor:
        """All parts, one after the other. Called once, after the last part."""
        ...


@final
class InMemory:
    """Parts in memory."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []

    def add(self, part: Tensor) -> None:
        """Keep a part."""
        self._parts.append(part)

    def joined(self) -> Tensor:
        """The parts end to end."""
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else torch.cat(parts)


@final
class OnDisk:
    """Parts in a temporary file. It has no name any more once it can be read, and goes with the last tensor on it."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="alphaedge-", delete=False)  # noqa: SIM115
        self._shape, self._dtype, self._length = torch.Size(), torch.float32, 0

    def add(self, part: Tensor) -> None:
        """Write a part."""
        self._shape, self._dtype, self._length = part.shape[1:], part.dtype, self._length + len(part)
        part.contiguous().numpy().tofile(self._file)

    def joined(self) -> Tensor:
        """The file as a tensor. What is written to it stays in memory."""
        self._file.close()
        size = self._length * self._shape.numel()
        found = torch.from_file(self._file.name, shared=False, size=size, dtype=self._dtype)
        Path(self._file.name).unlink()
        return found.view(self._length, *self._shape)


def keep_on_disk(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """The same streams, their events in files."""
    kept: defaultdict[str, OnDisk] = defaultdict(OnDisk)
    lengths = []
    for stream in streams:
        lengths.append(len(stream))
        for name, values in _columns(stream).items():
            kept[name].add(values)
    columns = {name: torch.split(parts.joined(), lengths) for name, parts in kept.items()}
    labels, times = columns.pop("labels"), columns.pop("times")
    return tuple(
        Stream({name.removeprefix("field "): values[e] for name, values in columns.items()}, labels[e], times[e])
        for e in range(len(lengths))
    )


def _columns(stream: Stream) -> dict[str, Tensor]:
    fields = {f"field {name}": values for name, values in stream.inputs.items()}
    return fields | {"labels": stream.labels, "times": stream.times}
