"""Three honest edges and one that attacks, for tests and benchmarks: what they learn, mix and predict."""

import contextlib
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from alphaedge.edge.store.learned_mark import read_learned_mark

from ..hostile import EdgeLog, status
from ..processes import CONFIG, Edge, fleet_of, send, tell, wait_for

HONEST: Final = ("berlin", "boston", "paris")
ATTACKER: Final = "mallory"
BATCH, EVERY = 40, 10  # examples; batches per round
PERIOD: Final = BATCH * EVERY
ITEMS, NEW_USERS = 20, 50
SETTINGS: Final[dict[str, Any]] = {
    "model": CONFIG["model"] | {"batch_size": BATCH},
    "method": {"aggregate_every": EVERY},
}

Events = list[tuple[str, int, list[float], float]]


def tastes(count: int, seed: int) -> Events:
    """Events of 200 people who like the even items, depending on a number."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        item, x = rng.randrange(ITEMS), [rng.gauss(0, 1), rng.gauss(0, 1)]
        liked = rng.random() < (0.85 if (item % 2 == 0) == (x[0] > -0.5) else 0.15)
        found.append((f"u{rng.randrange(200)}", item, x, float(liked)))
    return found


@final
@dataclass
class Zoo:
    """A running fleet. taught: periods so far."""

    edges: dict[str, Edge]
    log: EdgeLog
    taught: int = 0

    @property
    def honest(self) -> list[Edge]:
        return [self.edges[name] for name in HONEST]

    def teach(self, periods: int, *, at_once: bool = False) -> float:
        """Let every edge of the fleet learn whole periods; seconds until the honest ones have.

        at_once: all predictions come first, and all feedback at once, so that hardly anything but learning takes time.
        """
        step = periods if at_once else 1
        seconds = 0.0
        for _ in range(0, periods, step):
            goals = {edge.folder.name: _learned(edge) + step * PERIOD for edge in self.honest}
            labels = [(edge, self._predict(edge, place, step)) for place, edge in enumerate(self.edges.values())]
            began = time.monotonic()
            for edge, some in labels:
                for one in some:
                    tell(edge, one)
            for edge in self.honest:
                wanted = goals[edge.folder.name]
                wait_for(lambda e=edge, w=wanted: _learned(e) >= w, f"{edge.folder.name} to have learned")  # type: ignore[misc]
            seconds += time.monotonic() - began
            self.taught += step
        return seconds

    def _predict(self, edge: Edge, place: int, periods: int) -> list[list[tuple[int, float]]]:
        """Predictions of some periods, and the labels to tell; none of an edge that has left."""
        if edge.process is None:
            return []
        return [send(edge, tastes(PERIOD, 10 * (self.taught + step) + place)) for step in range(periods)]

    def shares(self) -> dict[str, list[float]]:
        """The attacker's share in each round of every honest edge, in order."""
        found: dict[str, list[float]] = {}
        for name in HONEST:
            rounds = sorted(self.log.events(edge=name, event="aggregated"), key=lambda event: event["number"])
            found[name] = [event["shares"].get(ATTACKER, 0.0) for event in rounds]
        return found

    def remove_attacker(self) -> None:
        self.edges[ATTACKER].kill()
        self.edges[ATTACKER].process = None

    def score(self) -> float:
        """The mean score of the honest edges over their last batches."""
        return statistics.mean(found for edge in self.honest if (found := status(edge).recent) is not None)

    def new_users(self) -> float:
        """The mean prediction for people whom nobody has seen, over all items and honest edges."""
        found: list[float] = []
        for edge in self.honest:
            users = [f"new{n}" for n in range(NEW_USERS) for _ in range(ITEMS)]
            items = list(range(ITEMS)) * NEW_USERS
            edge.predict(users, items, [[0.0, 0.0]] * len(users))  # at first sight peers are asked for their rows
            adopted = status(edge).adopted_rows
            with contextlib.suppress(AssertionError):
                wait_for(lambda e=edge, a=adopted: status(e).adopted_rows > a, "rows", 2.0)  # type: ignore[misc]
            found += edge.predict(users, items, [[0.0, 0.0]] * len(users))[0]
        return statistics.mean(found)


@contextlib.contextmanager
def zoo(path: Path, attack: str | None, **changes: Any) -> Iterator[Zoo]:
    """Run the fleet. attack: of the fourth edge, which is honest for None."""
    path.mkdir(parents=True, exist_ok=True)
    log = EdgeLog(path / "log")
    programs = {} if attack is None else {ATTACKER: ("tests.edge.attacks.attacker", attack)}
    places = [(name, "EU") for name in (*HONEST, ATTACKER)]
    with contextlib.ExitStack() as stack:
        with log.capture():
            edges = stack.enter_context(fleet_of(path, places, programs, **SETTINGS | changes))
        yield Zoo({edge.folder.name: edge for edge in edges}, log)


def _learned(edge: Edge) -> int:
    return read_learned_mark(edge.folder / "data").newest
