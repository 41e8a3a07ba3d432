"""Checks of selection rules, on views of few and many edges."""

import copy
import random
from collections.abc import Callable
from typing import Any, Final

from alphaedge.core.rule_check import check_rule
from alphaedge.core.selection import Selection, View
from alphaedge.testing.expectations import expect, expect_picklable, run_checks

# How edges are called: by numbers in a simulation, by names in a fleet.
NAMES: Final[tuple[Callable[[int], Any], ...]] = (int, lambda n: f"edge{n}")


def selection_fulfils_its_protocol(rule: Selection) -> None:
    """Every part is there, with the right type and signature."""
    check_rule("selection", rule, Selection)


def selection_can_be_sent_to_another_process(rule: Selection) -> None:
    """A simulation in several processes pickles the rule."""
    expect_picklable(rule)


def neighbours_are_other_candidates_each_once(rule: Selection) -> None:
    """Whatever an edge sees, and however edges are called."""
    for view, rng in _views():
        for name, chosen in (
            ("first", rule.first(view.edge, view.candidates, rng)),
            ("choose", rule.choose(view, rng)),
        ):
            others = set(view.candidates) - {view.edge}
            wrong = set(chosen) - others or len(set(chosen)) < len(chosen)
            text = f"{name} must return other candidates, each once; of {list(view.candidates)} it chose {chosen}"
            expect(not wrong, rule, f"{text} for {view.edge!r}")


def no_more_neighbours_than_the_rule_wants(rule: Selection) -> None:
    """At most ``peers`` of them."""
    for view, rng in _views():
        chosen = rule.choose(view, rng)
        expect(rule.peers is None or len(chosen) <= rule.peers, rule, f"choose must return at most {rule.peers} peers")


def the_same_randomness_gives_the_same_neighbours(rule: Selection) -> None:
    """Recovery after a crash replays rounds: all randomness comes from ``rng``."""
    for (view, one), (_, other) in zip(_views(), _views(), strict=True):
        same = rule.choose(view, one) == rule.choose(view, other)
        expect(same, rule, "the same view and randomness must give the same neighbours")


def choosing_leaves_the_view_as_it_is(rule: Selection) -> None:
    """A view belongs to the edge."""
    for view, rng in _views():
        before = copy.deepcopy(view)
        rule.choose(view, rng)
        expect(view == before, rule, "choose must not change the view")


def _views() -> list[tuple[View[Any], random.Random]]:
    """What edges may see: nobody, a few, many; called by numbers and by names."""
    found: list[tuple[View[Any], random.Random]] = []
    for count in (1, 2, 4, 30):
        for called in NAMES:
            rng = random.Random(count)
            edges: list[Any] = [called(n) for n in range(count)]
            neighbours = rng.sample(edges[1:], min(3, count - 1))
            shares = {j: rng.random() / 4 for j in neighbours}
            topology = {j: {k: rng.random() / 4 for k in rng.sample(edges, min(4, count))} for j in neighbours}
            gone = [*neighbours, called(count)] if count > 1 else neighbours  # a neighbour that has left
            view = View(edges[0], gone, edges, shares, topology, {called(count): 0.1} if count > 1 else {})
            found.append((view, random.Random(7)))
    return found


SELECTION_CHECKS: Final[tuple[Callable[[Selection], None], ...]] = (
    selection_fulfils_its_protocol,
    selection_can_be_sent_to_another_process,
    neighbours_are_other_candidates_each_once,
    no_more_neighbours_than_the_rule_wants,
    the_same_randomness_gives_the_same_neighbours,
    choosing_leaves_the_view_as_it_is,
)


def check_selection(rule: Selection) -> None:
    """Run all checks of a selection rule; ``RuleError`` at the first that fails."""
    run_checks(SELECTION_CHECKS, rule)
