"""A private step against a plain online step, of stacked edges in batches of 50: clipping, noise and all.

``event`` protects each event on its own, ``user`` all events of one user. The built-in models are those of the engine's
benchmark; the others are modules that have layers besides linear ones, whose gradients are written out example by
example.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from alphaedge.core.fields import Field
from alphaedge.core.gradients import Stacked
from alphaedge.core.model import Model
from alphaedge.core.online import Online, learn
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning
from alphaedge.core.privacy.settings import Privacy
from alphaedge.data.stream import Dataset, Stream
from alphaedge.simulation.releases import SeededNoise
from benchmarks.common import BATCH, arguments, deepfm_shape, median_ratio, mlp_shape, prepare, report, time_in_turn

STEPS = 20
USERS = 12  # of a batch


class Convolution(nn.Module):
    """A convolution over 60 numbers, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.out = nn.Conv1d(1, 8, 5, stride=2), nn.Linear(8 * 28, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One number per example."""
        out: Tensor = self.out(torch.relu(self.look(x.unsqueeze(-2))).flatten(-2))
        return out


class Attention(nn.Module):
    """Attention over 12 tokens of 5 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.ask, self.show, self.tell, self.out = (nn.Linear(5, 8), nn.Linear(5, 8), nn.Linear(5, 8), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        """One number per example."""
        tokens = x.view(*x.shape[:-1], 12, 5)
        weights = torch.softmax(self.ask(tokens) @ self.show(tokens).mT / 8**0.5, dim=-1)
        out: Tensor = self.out((weights @ self.tell(tokens)).mean(-2))
        return out


def numbers(module: nn.Module, edges: int) -> tuple[Dataset, Model]:
    """Make a regression over 60 numbers for a module."""
    generator = torch.Generator().manual_seed(0)
    count = STEPS * BATCH
    streams = tuple(
        Stream(
            {"x": torch.randn(count, 60, generator=generator)},
            torch.randn(count, generator=generator),
            torch.arange(count, dtype=torch.float64),
        )
        for _ in range(edges)
    )
    data = Dataset("benchmark", "regress", (Field("x", "number", 60),), streams)
    return data, Model(module, fields=["x"], loss="mse")


def jobs_of(data: Dataset, model: Model) -> dict[str, Callable[[], None]]:
    """Make the jobs: plain online steps, and private ones for events and for users."""
    batches, plain = prepare(data, model)
    everybody = torch.arange(len(plain))
    parts = [batches.get(everybody, torch.full_like(everybody, step)) for step in range(STEPS)]
    gradients, online = Stacked(model), Online()
    users = torch.arange(BATCH).expand(len(plain), -1) % USERS

    def plain_job() -> None:
        with torch.inference_mode():
            for part in parts:
                learn(plain, part, gradients, online)

    def private_job(privacy: Privacy) -> Callable[[], None]:
        per_example, noise = PerExampleGradients(model), SeededNoise([str(edge) for edge in range(len(plain))])
        mechanism = Mechanism.of(privacy, model, per_example.statistics, BATCH)
        learning = PrivateLearning(per_example, mechanism, privacy.rate)
        released = learning.start(plain)
        counts = torch.ones_like(users, dtype=torch.bool)
        lots = [Lot.of_users(p, users, counts) if privacy.user else Lot.of_events(p) for p in parts]

        def job() -> None:
            for lot in lots:
                learning.step(released, everybody, lot, noise)

        return job

    ids = ("item",) if "item" in model.fields else ()
    user = "user" if "user" in model.fields else model.fields[0]
    return {
        "plain": plain_job,
        "event": private_job(Privacy(tables=ids)),
        "user": private_job(Privacy(user=user, tables=ids)),
    }


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "")
    rounds = 1 if args.quick else 9
    torch.manual_seed(0)
    shapes = {
        "mlp": mlp_shape(35, STEPS),
        "deepfm": deepfm_shape(10, STEPS),
        "convolution": numbers(Convolution(), 35),
        "attention": numbers(Attention(), 35),
    }
    figures, rows = {}, []
    for name, (data, model) in shapes.items():
        seconds = time_in_turn(jobs_of(data, model), rounds)
        ratios = {kind: 1 / median_ratio(seconds["plain"], seconds[kind]) for kind in ("event", "user")}
        figures[name] = {"plain_ms": 1000 * min(seconds["plain"]) / STEPS} | ratios
        rows.append([name, f"{figures[name]['plain_ms']:.2f}", *(f"{ratio:.2f}" for ratio in ratios.values())])
    report("a private step over a plain one", ["model", "plain, ms", "event", "user"], rows, figures, args.json)


if __name__ == "__main__":
    main()
