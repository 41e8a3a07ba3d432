"""Runs of selection alone, without models: how fast edges find the peers that were planted for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, final

import numpy as np

from alphaedge.core.methods import alphaedge
from alphaedge.core.rules.selection.greedy import Greedy
from benchmarks.internet.draws import Hints, from_everybody, from_views
from benchmarks.internet.partial_views import PartialViews
from benchmarks.internet.selection import AS_IT_IS, Draw, Fleet, Variant, announce, select, select_randomly
from benchmarks.internet.worlds import NOBODY, Ints, LearnedWeights, plant

USUAL: Final = LearnedWeights()
DESIGN: Final = Variant(announce_untried=False, pullers=True, explore=0.1)
SHUFFLES: Final = 1  # of partial views per round of selection
WRONG_HINTS: Final = 0.1  # part of the edges
LEVELS: Final = (0.5, 0.8, 0.95)
POINTS: Final = 50  # of a curve that are kept


@final
@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One run.

    size: edges in a cluster. rule: the project's greedy rule, or K random peers in every round. known: whom an edge
    knows besides its neighbours and theirs: everybody, those with the same of so many hints, or a partial view. churn:
    part of the edges that others replace in each round. split: rounds between which there are two halves.
    """

    edges: int
    size: int
    rounds: int
    rule: Literal["greedy", "random"] = "greedy"
    variant: Variant = AS_IT_IS
    weights: LearnedWeights = USUAL
    known: Literal["everybody", "views"] | int = "everybody"
    churn: float = 0.0
    split: tuple[int, int] | None = None
    until: float = LEVELS[-1]
    seed: int = 0


@final
@dataclass
class Course:
    """What happened, by round.

    planted: part of all places among neighbours that an edge of the same cluster has. busiest: the largest number of
    edges that pull from one. crossing: part of the places with an edge of the other half. dead: part of the entries of
    partial views that are about edges that are gone.
    """

    planted: list[float] = field(default_factory=list)
    busiest: list[int] = field(default_factory=list)
    crossing: list[float] = field(default_factory=list)
    dead: list[float] = field(default_factory=list)

    def rounds_until(self, level: float) -> int | None:
        """The first round after which so many places have planted peers; None if there was none."""
        return next((number for number, part in enumerate(self.planted, 1) if part >= level), None)

    def late(self) -> float:
        """The part of planted peers in the last tenth of the run."""
        return float(np.mean(self.planted[-max(1, len(self.planted) // 10) :]))

    def figures(self, scenario: Scenario) -> dict[str, Any]:
        """What is kept of the run."""
        step = -(-len(self.planted) // POINTS)
        curves: dict[str, Sequence[float]]
        curves = {"planted": self.planted, "busiest": self.busiest, "crossing": self.crossing, "dead": self.dead}
        return {
            "edges": scenario.edges,
            "cluster": scenario.size,
            "rounds": len(self.planted),
            "until": {str(level): self.rounds_until(level) for level in LEVELS},
            "late": round(self.late(), 4),
            "most busy": max(self.busiest),
            "step": step,
        } | {name: [round(value, 4) for value in curve[::step]] for name, curve in curves.items() if curve}


def run(scenario: Scenario, watch: Callable[[int, float], None] = lambda _, __: None) -> Course:
    """Run one scenario. It ends early when planted peers have ``until`` of the places, unless there is more to see."""
    rng = np.random.default_rng(scenario.seed)
    n, memory = scenario.edges, alphaedge().aggregation.memory
    cluster = plant(n, scenario.size, rng)
    views = PartialViews.start(n, rng) if scenario.known == "views" else None
    draw = _draw(scenario, cluster, views, rng)
    fleet, rule = Fleet.start(n, Greedy(), memory, draw, rng), Greedy()
    half = (rng.random(n) < 0.5).astype(np.int32)
    course = Course()
    for number in range(scenario.rounds):
        is_split = scenario.split is not None and scenario.split[0] <= number < scenario.split[1]
        fleet.side = half if is_split else np.zeros(n, np.int32)
        if scenario.churn:
            gone = rng.choice(n, round(n * scenario.churn), replace=False).astype(np.int32)
            if views is not None:
                views.replace(gone, rng)
            fleet.replace(gone, memory, draw, rng)
        if views is not None:
            for _ in range(SHUFFLES):
                views.shuffle(fleet.side, rng)
            course.dead.append(views.dead())
        announced = announce(fleet, scenario.variant)
        fleet.weights = scenario.weights.draw(cluster[:, None], cluster[fleet.neighbours], rng)
        if scenario.rule == "greedy":
            select(fleet, announced, rule, memory, draw, rng, scenario.variant)
        else:
            select_randomly(fleet, draw, rng)
        _note(course, fleet, cluster, half)
        watch(number, course.planted[-1])
        if course.planted[-1] >= scenario.until and not scenario.churn and scenario.split is None:
            break
    return course


def _note(course: Course, fleet: Fleet, cluster: Ints, half: Ints) -> None:
    there = fleet.neighbours[fleet.neighbours != NOBODY]
    course.planted.append(fleet.planted(cluster))
    course.busiest.append(int(np.bincount(there, minlength=len(cluster)).max()))
    course.crossing.append(float((half[fleet.neighbours] != half[:, None]).mean()))


def _draw(scenario: Scenario, cluster: Ints, views: PartialViews | None, rng: np.random.Generator) -> Draw:
    if views is not None:
        return from_views(views)
    if isinstance(scenario.known, int):
        return Hints.give(cluster, scenario.known, WRONG_HINTS, rng).draw
    return from_everybody(scenario.edges)


def scenarios(*, quick: bool) -> dict[str, Scenario]:
    """The runs of the benchmark, by name."""
    large, small, tens = (2_000, 100, 500) if quick else (100_000, 1_000, 10_000)
    rounds, few = (20, 10) if quick else (150, 60)
    base = Scenario(edges=large, size=large // 100, rounds=rounds)
    design = replace(base, variant=DESIGN)
    split: dict[str, Any] = {"size": large // 10, "rounds": few, "split": (few // 4, few * 5 // 12)}
    found = {
        "greedy": base,
        "random": replace(base, rule="random", rounds=5),
        "design": design,
        "design, partial views": replace(design, known="views", rounds=few),
        "greedy, churn": replace(base, churn=0.01, rounds=few),
        "design, partial views, churn": replace(design, known="views", churn=0.01, rounds=few),
        "greedy, partition": replace(base, **split),
        "design, partition": replace(design, **split),
        "design, clusters of 20, hints": replace(design, size=20, known=8 if quick else 256, rounds=few),
        "greedy, clusters of 20": replace(base, size=20, rounds=few // 3),
        "design, clusters of 20": replace(design, size=20, rounds=few // 3),
    }
    usual = Scenario(edges=tens, size=tens // 100, rounds=2 * few)
    for name, variant in (("greedy", AS_IT_IS), ("design", DESIGN)):
        for edges in (small, 2 * small, 5 * small, tens):  # the same clusters of 20, ever more of them
            found[f"{name}, {edges} in clusters of 20"] = Scenario(
                edges=edges, size=20, rounds=20 if quick else 400, variant=variant, until=0.8
            )
        for noise in (0.0, 0.2, 0.4):
            weights = LearnedWeights(noise=noise)
            found[f"{name}, noise {noise}"] = replace(usual, variant=variant, weights=weights)
        found[f"{name}, alike by degrees"] = replace(usual, variant=variant, weights=LearnedWeights(likeness=0.5))
    found["greedy, untried not announced"] = replace(usual, variant=Variant(announce_untried=False))
    found["greedy, pullers"] = replace(usual, variant=Variant(pullers=True))
    return found
