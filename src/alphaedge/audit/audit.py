"""The whole audit of one edge of a simulated fleet: what its publications tell, with privacy and without."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import torch

from alphaedge.audit.events import Events
from alphaedge.audit.membership import Attack, lira, loss_threshold
from alphaedge.audit.one_run import NoiseOf, OneRun, audit_in_one_run, learning_of, lot_sizes
from alphaedge.audit.rare_ids import RareIds, read_rare_ids
from alphaedge.audit.runs import gradients_of, judged, plain_runs, private_runs
from alphaedge.audit.tallies import audit_tallies
from alphaedge.core.model import Model
from alphaedge.core.online import Online
from alphaedge.core.privacy.settings import Privacy
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import make_data, make_model

LOTS: Final = 240  # that canaries are spread over
QUICK_LOTS: Final = 60
RUNS: Final = 9  # of membership inference: each is attacked with the others as shadow runs
QUICK_RUNS: Final = 4
MEMBERSHIP_EVENTS: Final = 4000
QUICK_EVENTS: Final = 1200
Report = Callable[[str, float, str], None]  # a phase, the share of it that is done, and a line about it


@final
@dataclass(frozen=True)
class Exposed:
    """What is told of single events: by their losses, to shadow models, and of ids with one event."""

    loss_threshold: Attack | None
    lira: Attack | None
    rare_ids: RareIds


@final
@dataclass(frozen=True)
class Audit:
    """What an audit has found. canaries, tallies: attacks on the promise; tallies if any are released."""

    edge: str
    events: int
    privacy: Privacy
    canaries: OneRun
    tallies: OneRun | None
    private: Exposed
    plain: Exposed

    @property
    def observed(self) -> float:
        """The largest lower bound of epsilon."""
        return max(one.guesses.epsilon for one in (self.canaries, self.tallies) if one is not None)

    @property
    def broken(self) -> bool:
        """Whether more was observed than promised."""
        return self.observed > self.privacy.epsilon


def audit_simulation(
    settings: Settings,
    privacy: Privacy,
    *,
    canaries: int = 200,
    quick: bool = False,
    seed: int = 0,
    report: Report = lambda _, __, ___: None,
) -> Audit:
    """Audit the edge with the most events of a simulated fleet; settings: resolved ones.

    What an edge publishes privately depends on no peer, so it is run on its own. So is the one without privacy: then a
    peer sees a little less of its events, which mixing blurs.
    """
    data = make_data(settings, seed)
    model = make_model(partial(settings.base.make, data), seed)
    sizes = [len(stream) for stream in data.streams]
    edge = max(range(len(sizes)), key=lambda one: sizes[one])
    events = Events.of(data.streams[edge], data.fields, model, classes=data.task == "classify")
    name = data.names[edge] if data.names else str(edge)
    return audit_edge(
        model, events, privacy, settings.online, name, settings.size, canaries, quick=quick, seed=seed, report=report
    )


def audit_edge(
    model: Model,
    events: Events,
    privacy: Privacy,
    online: Online,
    edge: str,
    batch_size: int,
    canaries: int,
    *,
    quick: bool,
    seed: int,
    noise: NoiseOf | None = None,
    report: Report = lambda _, __, ___: None,
) -> Audit:
    """Audit one edge by its events. noise: that of private steps with canaries; the default is a simulation's."""
    first, size = lot_sizes(learning_of(model, privacy, batch_size), privacy, batch_size)
    some = events.first(first + (QUICK_LOTS if quick else LOTS) * size)
    in_one_run = audit_in_one_run(
        model,
        some,
        privacy,
        batch_size=batch_size,
        canaries=canaries,
        seed=seed,
        noise=noise,
        report=lambda share: report("canaries", share, "guessing coins"),
    )
    tallies = None
    if privacy.tables:
        report("tallies", 0.0, "who was there before the crowd")
        tallies = audit_tallies(privacy, canaries=canaries, seed=seed, noise=noise)
    runs, count = (QUICK_RUNS, QUICK_EVENTS) if quick else (RUNS, MEMBERSHIP_EVENTS)
    fewer = events.first(max(count, first + 2 * size))
    exposed = _expose(model, fewer, privacy, online, batch_size, runs, seed, report)
    return Audit(edge, len(some), privacy, in_one_run, tallies, *exposed)


def _expose(
    model: Model,
    events: Events,
    privacy: Privacy,
    online: Online,
    batch_size: int,
    runs: int,
    seed: int,
    report: Report,
) -> tuple[Exposed, Exposed]:
    """What is told of single events, with privacy and without."""
    generator = torch.Generator().manual_seed(seed)
    half = len(events) // 2
    members = torch.zeros(runs, len(events), dtype=torch.bool)
    for run in range(runs):
        members[run, torch.randperm(len(events), generator=generator)[:half]] = True
    everything = torch.ones(1, len(events), dtype=torch.bool)
    gradients = gradients_of(model, events)
    found = []
    for number, private in enumerate((True, False)):
        report("membership", number / 2, "with privacy" if private else "without")
        both = [
            private_runs(model, privacy, events, who, batch_size, seed)
            if private
            else plain_runs(gradients, online, events, who, batch_size)
            for who in (members, everything)
        ]
        losses, confidences = judged(gradients, both[0], events)
        attacks = loss_threshold(losses, both[0].members), lira(confidences, both[0].members)
        found.append(Exposed(*attacks, read_rare_ids(model, both[1], events)))
    report("membership", 1.0, "done")
    return found[0], found[1]
