"""Recorded calls on disk, so that the next process need not record them: TorchScript source, as text.

A file is named by all that its recording depends on: the versions of torch and of the code that records, and the model:
its structure, the numbers that its modules hold, and the source files of their classes. A model whose source can't be
read is not kept. A file that is damaged is recorded anew, and one that somebody else could have written is not read.
"""

import contextlib
import hashlib
import inspect
import os
from pathlib import Path
from typing import Final, final

import torch

from alphaedge.core import gradients, model, recording
from alphaedge.core.model import Model
from alphaedge.files import replace_file

_RECORDS: Final = (gradients, model, recording)  # the modules that make a recording what it is


@final
class RecordingCache:
    """The recordings of one model in a folder (``core.gradients.Recordings``)."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint

    def get(self, call: str) -> str | None:
        """Read the recording of a call; None if there is none, or it is not this user's own."""
        path = self._path(call)
        try:
            found = path.stat()
            if found.st_uid != os.getuid() or found.st_mode & 0o022:
                return None
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def put(self, call: str, source: str) -> None:
        """Write a recording. Without a place to write to, every process records for itself."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._path(call), source.encode(), mode=0o600)

    def _path(self, call: str) -> Path:
        return self._folder / f"{hashlib.sha256(f'{self._fingerprint} {call}'.encode()).hexdigest()[:24]}.txt"


def fingerprint(made: Model) -> str | None:
    """A hash of what a model's recordings depend on; None if the source of a module or of the loss can't be read."""
    parts, files = [torch.__version__, repr(made.module)], set[str]()
    try:
        for each in (*made.module.modules(), made.loss.function):
            kind = each if inspect.isfunction(each) else type(each)
            file = inspect.getsourcefile(kind)
            if file is None:
                return None
            if not kind.__module__.startswith("torch."):
                files.add(file)
            numbers = {k: v for k, v in vars(each).items() if isinstance(v, bool | int | float | str | tuple | None)}
            parts.append(f"{kind.__module__}.{kind.__qualname__} {sorted(numbers.items())!r}")
        digest = hashlib.sha256()
        for file in (*sorted(files), *(module.__file__ for module in _RECORDS)):
            digest.update(Path(str(file)).read_bytes())
    except (OSError, TypeError):
        return None
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()
