"""The work that the simulators share: the same network, batches, optimizer and period for all of them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.frameworks import BATCH
from benchmarks.frameworks.stopwatch import Stopwatch

PERIOD: Final = 20  # batches between two averages
RATE: Final = 0.01  # of Adam


def network(inputs: int) -> nn.Sequential:
    """Make the layers of the catalog's MLP: [B, inputs] to [B, 1]."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))


@final
@dataclass(frozen=True)
class Work:
    """The streams of all edges, one after the other: inputs [N, F], labels [N], times [N], examples of each edge."""

    inputs: Tensor
    labels: Tensor
    times: Tensor
    counts: Sequence[int]

    def save(self, path: Path) -> None:
        """Write the work for other environments."""
        arrays = (tensor.numpy() for tensor in (self.inputs, self.labels, self.times))
        np.savez(path, *arrays, np.array(self.counts))

    @classmethod
    def load(cls, path: Path) -> "Work":
        """Read what ``save`` wrote."""
        with np.load(path) as found:
            inputs, labels, times, counts = (found[name] for name in found.files)
        tensors = (torch.from_numpy(inputs), torch.from_numpy(labels), torch.from_numpy(times))
        return cls(*tensors, counts.tolist())

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.counts)

    def stream(self, edge: int) -> tuple[Tensor, Tensor]:
        """Return the inputs [n, F] and labels [n, 1] of one edge."""
        first = sum(self.counts[:edge])
        place = slice(first, first + self.counts[edge])
        return self.inputs[place], self.labels[place].unsqueeze(1)

    def period(self, edge: int, number: int) -> list[tuple[Tensor, Tensor]]:
        """Return the batches between two averages. A stream that is at its end begins again."""
        inputs, labels = self.stream(edge)
        batches = len(labels) // BATCH
        first = [(number * PERIOD + step) % batches * BATCH for step in range(PERIOD)]
        return [(inputs[at : at + BATCH], labels[at : at + BATCH]) for at in first]


@cache
def load_once(file: str) -> Work:
    """Load the work and set torch to one thread, once in a process."""
    torch.set_num_threads(1)
    return Work.load(Path(file))


def train(module: nn.Module, batches: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Take one step of Adam on each batch."""
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE)
    module.train()
    for inputs, labels in batches:
        loss = nn.functional.mse_loss(module(inputs), labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def mean_squared_error(module: nn.Module, work: Work) -> float:
    """Return the error of a model on all examples of the work."""
    module.eval()
    with torch.inference_mode():
        return float(nn.functional.mse_loss(module(work.inputs).squeeze(1), work.labels))


def arguments() -> tuple[Path, int]:
    """Return the work's file and the number of rounds to measure, from the command line; set torch to one thread."""
    torch.set_num_threads(1)
    return Path(sys.argv[1]), int(sys.argv[2])


def answer(edge_batches: int, watch: Stopwatch, cores: int, error: float) -> None:
    """Print the figures. Start-up is not part of the time. The error (mean squared) shows that it has learned."""
    print(json.dumps({"edge_batches": edge_batches, **vars(watch), "cores": cores, "error": error}), flush=True)
