"""Recorded calls on disk, so that the next process need not record them: TorchScript source, as text.

Only those of the models that AlphaEdge brings are kept: what a module of a user's own depends on can't be known. A file
is named by the versions of torch and of AlphaEdge's models and recorder, the structure of the model, and the numbers
that its modules hold. A file that is damaged is made anew, and one that somebody else could have written is not read.
"""

import contextlib
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final, final

import torch

from alphaedge import models
from alphaedge.core import gradients, model, recording, replays
from alphaedge.core.model import LOSSES, Model

_SOURCES: Final = (gradients, model, recording, replays)  # the modules that make a recording what it is
_OWN: Final = ("torch.nn.", "alphaedge.models.")
_LINES: Final = re.compile(  # what ``recording.record`` writes, and nothing else
    r"def call\(v0: Tensor[^()]*\) -> List\[Tensor\]:\n    k = v0\.size\(0\)\n"
    r"(?:    v\d+ = (?:torch\.ops\.aten\.\w+\(.*\)|v\d+\[\d+\])\n)*    return \[.*\]\n"
)
_OTHERS: Final = re.compile(r"torch\.ops\.(?!aten\.)|aten\.(?:from_file|save|load)\b|__|import")
_UNUSED_SECONDS: Final = 30 * 24 * 3600.0  # after which a file is deleted


@final
class RecordingCache:
    """The recordings of one model in a folder (``core.replays.Recordings``)."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint

    def get(self, call: str) -> str | None:
        """Read the recording of a call; None if there is none, it is damaged, or it is not this user's own."""
        try:
            if not _is_own(os.stat(self._folder)):
                return None
            descriptor = os.open(self._path(call), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with open(descriptor, encoding="utf-8") as file:
                if not _is_own(os.fstat(descriptor)):
                    return None
                text = file.read()
            os.utime(self._path(call))  # it is in use
        except (OSError, UnicodeDecodeError):
            return None
        return text if _LINES.fullmatch(text) and not _OTHERS.search(text) else None

    def put(self, call: str, source: str) -> None:
        """Write a recording. Without a place to write to, every process records for itself."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, name = tempfile.mkstemp(dir=self._folder)  # several processes may write the same one
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(source)
            os.replace(name, self._path(call))
            self._delete_unused(time.time() - _UNUSED_SECONDS)

    def _delete_unused(self, before: float) -> None:
        for file in self._folder.iterdir():
            if file.stat().st_mtime < before:
                file.unlink(missing_ok=True)

    def _path(self, call: str) -> Path:
        return self._folder / f"{hashlib.sha256(f'{self._fingerprint} {call}'.encode()).hexdigest()[:24]}.txt"


def recording_cache(folder: Path, made: Model) -> RecordingCache | None:
    """The recordings of a model in a folder; None if they can't be kept."""
    known = fingerprint(made)
    return RecordingCache(folder, known) if known and hasattr(os, "getuid") else None


def fingerprint(made: Model) -> str | None:
    """A hash of what a model's recordings depend on; None for a model or a loss that is not AlphaEdge's own."""
    loss = next((name for name, known in LOSSES.items() if known is made.loss), None)
    parts = [torch.__version__, repr(made.module), loss]
    for each in made.module.modules():
        kind = f"{type(each).__module__}.{type(each).__qualname__}"
        held = {key: value for key, value in vars(each).items() if not key.startswith("_") and key != "training"}
        if loss is None or not kind.startswith(_OWN) or not all(map(_is_plain, held.values())):
            return None
        parts.append(f"{kind} {sorted(held.items())!r}")
    digest = hashlib.sha256("\n".join(map(str, parts)).encode())
    files = [*(Path(str(module.__file__)) for module in _SOURCES), *Path(models.__path__[0]).glob("*.py")]
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list | dict):
        return all(map(_is_plain, [*value, *(value.values() if isinstance(value, dict) else ())]))
    return value is None or isinstance(value, bool | int | float | str)


def _is_own(found: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and nobody else can write it."""
    return found.st_uid == os.getuid() and not found.st_mode & 0o022
