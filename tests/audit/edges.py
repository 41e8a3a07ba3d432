"""Data folders of live edges to audit: their journals, and what their learners made of them."""

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.journal import Journal

from ..edge.processes import BATCH, CONFIG, EVERY, Edge

ROUND = BATCH * EVERY  # events
EAGER: dict[str, Any] = {**CONFIG["model"], "id_rate": 0.5, "local_steps": 5}  # learns single events by heart
PRIVATE: dict[str, Any] = {**CONFIG["method"], "privacy": {"epsilon": 2.0, "tables": ["item"], "tally_batches": 1}}


def record(path: Path, count: int, seed: int = 0) -> None:
    """Write events to an edge's journal. Each is of a user of its own, and its label is a fair coin."""
    config = load(path)
    features = Features(config.model.fields, b"secret")
    generator = torch.Generator().manual_seed(seed)
    inputs = {
        "user": np.array([f"{seed}/{number}".encode() for number in range(count)], dtype=object),
        "item": torch.randint(0, 20, (count,), generator=generator).numpy(),
        "x": torch.randn(count, 2, generator=generator).numpy(),
    }
    labels = (torch.rand(count, generator=generator) < 0.5).double().tolist()
    journal = Journal(path.parent / config.data / "journal.db", layout=features.layout)
    ids = journal.record_predictions(features.to_bytes(features.encode(inputs)), [0.5] * count, now=1.0)
    journal.record_feedback(zip(ids, labels, strict=True), now=2.0)
    journal.close()


def edge_folder(folder: Path, rounds: int, later: int, **changes: Any) -> Path:
    """The folder of an edge that has learned for so many rounds, and has had so many events since; its configuration.

    changes: to the configuration.
    """
    path = Edge(folder, **changes).path
    record(path, rounds * ROUND + later)
    loop = LearningLoop(load(path), folder)
    for _ in range(rounds):
        while loop.step():
            pass
        loop.start_round()
        loop.finish_round({}, ["berlin"], {})
    loop._journal.close()
    loop._adoptions._db.close()
    Journal(folder / "data" / "journal.db").close()  # as the last that has it open, as an edge does that stops
    return path


HOLDER = """
import sys
from pathlib import Path
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.lock import Lock
data = Path(sys.argv[1])
locks, journal = [Lock(data / name) for name in ("server.lock", "learner.lock")], Journal(data / "journal.db")
journal.check_writable()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """Another process has the locks of a data folder, and its journal open; it is killed in the end."""
    words = [sys.executable, "-c", HOLDER, str(data)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.kill()


def checksums(folder: Path) -> dict[str, str]:
    """All files of a folder, by name."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in found}
