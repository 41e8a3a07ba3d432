"""The work that the online learners share: one stream of events, of which each belongs to an edge.

A learner predicts each event and learns from it before it sees the next one. It has either a model for each edge
(``own``), which learns from that edge's events only, or one ``pooled`` model for all, which no edge could have. In the
mode ``batches`` a model of an edge learns from 50 of its events at once, after it has predicted them, as ours do.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from benchmarks.frameworks.stopwatch import Stopwatch

MODES: Final = ("own", "pooled", "batches")


@final
@dataclass(frozen=True)
class Events:
    """Events in the order of time: fields by name, labels 0 or 1 [N], and the edge of each event [N].

    A field of whole numbers [N] is an id or a category; one of floats [N, F] has a zero where it says nothing.
    crossed: pairs of fields whose products are features too, for linear models.
    """

    fields: Mapping[str, NDArray[np.generic]]
    labels: NDArray[np.int64]
    edges: NDArray[np.int64]
    crossed: Sequence[tuple[str, str]] = ()

    def save(self, path: Path) -> None:
        """Write the events for other environments."""
        about = json.dumps({"fields": list(self.fields), "crossed": self.crossed})
        np.savez(path, np.array(about), self.labels, self.edges, *self.fields.values())

    @classmethod
    def load(cls, path: Path) -> "Events":
        """Read what ``save`` wrote."""
        with np.load(path) as found:
            text, labels, edges, *values = (found[name] for name in found.files)
        about = json.loads(str(text))
        crossed = [(one, other) for one, other in about["crossed"]]
        return cls(dict(zip(about["fields"], values, strict=True)), labels, edges, crossed)

    def features(self) -> list[dict[str, dict[str, float]]]:
        """Return the features of each event, field by field. An id is a feature of its own with the value 1."""
        events: list[dict[str, dict[str, float]]] = [{} for _ in self.labels]
        for name, values in self.fields.items():
            if values.ndim == 1:
                for event, code in zip(events, values.tolist(), strict=True):
                    event[name] = {f"{name}{code}": 1.0}
            else:
                for event, row in zip(events, values.tolist(), strict=True):
                    event[name] = {f"{name}{place}": value for place, value in enumerate(row) if value}
        return events

    def model_of(self, mode: str) -> list[int]:
        """Return the number of the model that each event goes to."""
        return [0] * len(self.edges) if mode == "pooled" else self.edges.tolist()


def arguments() -> tuple[Events, str, Path]:
    """Return the events, the mode and the file for predictions, from the command line."""
    events, mode, predictions = sys.argv[1:4]
    if mode not in MODES:
        raise ValueError(f"mode {mode}: must be one of {', '.join(MODES)}")
    return Events.load(Path(events)), mode, Path(predictions)


def answer(predictions: NDArray[np.float64], file: Path, watch: Stopwatch, cores: int = 1) -> None:
    """Save the predictions, one for each event in order, and print the figures. Start-up is not part of the time."""
    np.save(file, predictions)
    print(json.dumps({"examples": len(predictions), **vars(watch), "cores": cores}), flush=True)
