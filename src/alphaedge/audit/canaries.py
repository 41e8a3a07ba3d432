"""Canaries: events, or users with a few events, that are put into an edge's stream or left out by a fair coin."""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.audit.events import Events, drawn
from alphaedge.core.privacy.settings import Privacy
from alphaedge.errors import InvalidValue

FEWEST: Final = 20  # canaries; with fewer hardly anything can be shown
EVENTS_OF_A_USER: Final = 2  # in each lot
NOBODY: Final = -1


@final
@dataclass(frozen=True)
class Planted:
    """A stream with canaries in it, cut into lots.

    lots: the events of each lot. canary: [N], which canary an event is of, or NOBODY. units: [N], whose each event is.
    coins: [m], whether each canary is in.
    """

    events: Events
    lots: list[Tensor]
    canary: Tensor
    units: Tensor
    coins: Tensor


def cut(events: int, first: int, size: int) -> list[Tensor]:
    """Events one after the other in lots: one of ``first`` events, if any, and then of ``size`` each."""
    starts = range(first, events - size + 1, size)
    return ([torch.arange(first)] if first else []) + [torch.arange(start, start + size) for start in starts]


def rounds_and_events(privacy: Privacy) -> tuple[int, int]:
    """In how many lots a canary is, and with how many events in each."""
    return (1, 1) if privacy.user is None else (privacy.participations, EVENTS_OF_A_USER)


def plant(events: Events, privacy: Privacy, *, canaries: int, first: int, size: int, seed: int) -> Planted:
    """Put canaries into a stream, in the place of events of its own.

    first, size: events of the first lot, which teaches scales and is not attacked, and of every other one.
    A user that is a canary comes in as many lots as may count.
    """
    generator = torch.Generator().manual_seed(seed)
    lots = cut(len(events), first, size)
    left = lots[1:] if first else lots
    rounds, each = rounds_and_events(privacy)
    room = len(left) * (size // (2 * each)) // rounds
    if canaries < FEWEST or canaries > room or rounds > len(left):
        allowed = f"from {FEWEST} to {room}: they take at most half of the {len(left)} lots of {size} events"
        raise InvalidValue("canaries", canaries, allowed)
    canary = torch.full((len(events),), NOBODY)
    turns = torch.randperm(len(left), generator=generator).tolist()
    for number in range(canaries * rounds):
        lot = left[turns[number % len(turns)]]
        free = lot[canary[lot] == NOBODY]
        canary[free[torch.randperm(len(free), generator=generator)[:each]]] = number // rounds
    places = (canary != NOBODY).nonzero().squeeze(1)
    inputs, labels = drawn(events, len(places), generator)
    coins = torch.rand(canaries, generator=generator) < 0.5
    if privacy.user is None:
        return Planted(events.changed(places, inputs, labels), lots, canary, torch.arange(len(events)), coins)
    there = events.field(privacy.user).size
    if there <= canaries:
        raise InvalidValue("canaries", canaries, f"fewer than the {there} values of {privacy.user}")
    order = torch.randperm(there, generator=generator)
    names, other = order[:canaries], order[-1]
    users = events.users(privacy.user)
    users = torch.where(torch.isin(users, names), other, users)  # no event of the stream's own is of a canary
    users[places] = names[canary[places]]
    changed = events.changed(places, inputs, labels)
    return Planted(changed.with_users(privacy.user, users), lots, canary, users, coins)
