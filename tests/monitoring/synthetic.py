"""Synthetic fleets: edges that learn, mix, come and go. For tests and benchmarks."""

import math
import random
from collections.abc import Iterator, Mapping
from typing import Final

from alphaedge.monitoring.vitals import EdgeView, Link, Vitals

START: Final = 1_750_000_000.0
EVERY: Final = 4  # batches between two aggregations
FEW: Final = (("berlin", "DE"), ("munich", "DE"), ("lyon", "FR"), ("paris", "FR"), ("madrid", "ES"), ("oslo", "NO"))
REGIONS: Final = ("BR", "DE", "ES", "FR", "IN", "JP", "NO", "US")

State = Mapping[str, EdgeView]


def names(edges: int) -> dict[str, str]:
    """Return the regions of ``edges`` edges by name."""
    if edges <= len(FEW):
        return dict(FEW[:edges])
    return {f"edge-{i:03}": REGIONS[i * len(REGIONS) // edges] for i in range(edges)}


def states(
    edges: int, steps: int, *, start: float = START, every: float = 5.0, seed: int = 0
) -> Iterator[tuple[float, State]]:
    """Yield the time and the state of a fleet, step by step. Edges of a region give each other more and more weight.

    One edge is down for a while, one joins after a third of the time, and one publishes models that are refused; those
    that are not, do harm, and most edges exclude it.
    """
    rng = random.Random(seed)
    regions = names(edges)
    fleet = {name: _Edge(name, region, list(regions), regions, rng) for name, region in regions.items()}
    late, away, hostile = list(regions)[-1], list(regions)[edges // 2], list(regions)[edges // 3]
    for number in range(steps):
        time = start + every * number
        there = {n for n in regions if n != late or number >= steps // 3}
        alive = {n for n in there if n != away or not steps // 2 <= number < steps * 3 // 4}
        for name in sorted(alive):
            fleet[name].live(time, alive, hostile, rng)
        yield time, {name: fleet[name].seen(name in alive) for name in regions if name in there}


class _Edge:
    """One edge of a synthetic fleet."""

    def __init__(self, name: str, region: str, every: list[str], regions: dict[str, str], rng: random.Random) -> None:
        self.name, self.region, self.regions = name, region, regions
        self.others = [n for n in every if n != name]
        self.neighbours = rng.sample(self.others, min(len(self.others), 3 if len(every) <= 12 else 8))
        self.links: dict[str, Link] = {}
        self.batches = self.aggregations = self.requests = 0
        self.level, self.speed, self.base = rng.uniform(0.7, 0.86), rng.uniform(0.02, 0.05), rng.uniform(0.7, 1.6)
        self.total, self.recent, self.own = 0.0, 0.5, 1.0
        self.gain = 0.2 * (self.level - 0.72)
        self.p50 = self.p99 = self.base

    def live(self, time: float, alive: set[str], hostile: str, rng: random.Random) -> None:
        self.batches += 1
        self.requests += rng.randrange(80, 160)
        rise = 1 - math.exp(-self.speed * self.batches)
        self.recent = 0.5 + (self.level - 0.5) * rise + rng.gauss(0, 0.008)
        self.total += self.recent
        self.p50 = self.base * rng.uniform(0.92, 1.1)
        self.p99 = self.p50 * rng.uniform(2.2, 3.4)
        if (self.batches + len(self.name) + ord(self.name[-1])) % EVERY == 0:
            self._aggregate(time, alive, hostile, rng)

    def _aggregate(self, time: float, alive: set[str], hostile: str, rng: random.Random) -> None:
        self.aggregations += 1
        if self.aggregations % 15 == 0:
            self._replace_the_worst(rng)
        kin = {peer: 3.0 if self.regions[peer] == self.region else 1.0 for peer in self.neighbours}
        learned = min(2.2, 0.2 + 0.15 * self.aggregations)
        raw = {
            p: (kin[p] ** learned) * rng.uniform(0.7, 1.3)
            for p in self.neighbours
            if p != hostile or rng.random() < 0.1
        }
        self.own = max(0.35, 0.8 - 0.03 * self.aggregations) + rng.uniform(0, 0.05)
        scale = (1.0 - self.own) / sum(raw.values()) if raw else 0.0
        for peer in self.neighbours:
            old = self.links.get(peer, Link())
            here = peer in alive
            self.links[peer] = Link(
                share=raw.get(peer, 0.0) * scale,
                pulled=time if here else old.pulled,
                behind=rng.choice((0, 0, 0, 1)) if here else old.behind + 1,
                bytes=old.bytes + (rng.randrange(20_000, 60_000) if here else 0),
                failures=old.failures + (not here),
                refused=old.refused + (peer == hostile and rng.random() < 0.25),
                state="excluded: worse than alone by 40%" if peer not in raw else "mixed" if here else "down",
            )
        for peer in self.links.keys() - set(self.neighbours):
            self.links[peer] = Link(
                **{f: getattr(self.links[peer], f) for f in Link.__struct_fields__} | {"share": 0.0, "state": "former"}
            )

    def _replace_the_worst(self, rng: random.Random) -> None:
        strangers = [n for n in self.others if n not in self.neighbours]
        if strangers:
            worst = min(self.neighbours, key=lambda peer: self.links[peer].share if peer in self.links else 1.0)
            self.neighbours[self.neighbours.index(worst)] = rng.choice(strangers)

    def seen(self, alive: bool) -> EdgeView:
        vitals = Vitals(
            score=self.total / self.batches if self.batches else None,
            recent=self.recent if self.batches else None,
            gain=self.gain if self.aggregations else 0.0 if self.batches else None,
            recent_gain=self.gain if self.aggregations else 0.0 if self.batches else None,
            batches=self.batches,
            aggregations=self.aggregations,
            requests=self.requests,
            p50=self.p50 if self.requests else None,
            p99=self.p99 if self.requests else None,
            pending=self.requests % 97,
            own_share=self.own,
            home_share=0.03 if self.aggregations else 0.0,
            neighbours=tuple(self.neighbours),
            links=dict(self.links),
        )
        return EdgeView(region=self.region, alive=alive, vitals=vitals)
