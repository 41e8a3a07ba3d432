"""One round of the method: weigh and mix (step 2), then select (step 3), for g edges at once.

The simulator calls these functions for many edges, the live edge for one. Nothing here knows how models got here, what
time it is, or which rule is in use: the method's rules decide, and what a round needs of the outside comes in as one
value.
"""

import contextlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import HeldModels, Mixing, Weights, shares_of
from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.hearing import Overheard, hear, listen
from alphaedge.core.links import Links, stack, unstack
from alphaedge.core.methods import Method
from alphaedge.core.selection import P, View
from alphaedge.core.state import ModelState
from alphaedge.errors import RuleError


@final
@dataclass(frozen=True)
class Round:
    """What g edges mix.

    models: their models, mixed in place. links: what each remembers of its peers, brought up to date in place.
    held: the models that they hold of their neighbours, in the order of ``links[i].neighbours``, filled up to P.
    publications: number of each held publication, [g][P]. aggregations: rounds that each edge has finished, [g].
    records: [g, 1 + P], own first. batches: revealed batches to weigh the models on. known, wanted: see ``Mixing``.
    overheard: what they hear of others.
    """

    models: ModelState
    links: Sequence[Links[Any]]
    held: HeldModels
    publications: Sequence[Sequence[int]]
    aggregations: Sequence[int]
    records: Tensor
    batches: Sequence[Batch]
    known: Sequence[Tensor]
    wanted: Sequence[Tensor] = ()
    overheard: Overheard | None = None


@torch.inference_mode()
def mix(method: Method, gradients: Gradients, round: Round, *, finite: bool = False) -> list[list[float]]:
    """Weigh the held models by the method's rule and mix them in; the shares of each edge, own first, [g][1 + P].

    finite: whether to refuse weights that are not finite, with nothing mixed. A simulation lets them through, so that
    an edge whose model has broken down stops alone.
    """
    rule, answered = method.aggregation, round.held.present
    if not bool(answered.any()):  # every model stays as it is
        return [[1.0] + [0.0] * answered.shape[1] for _ in round.links]
    mixing = Mixing(round.models, round.held, round.records, round.batches, gradients, round.known, round.wanted)
    if method.trial is not None:
        mixing = method.trial.hold(mixing, round.links, round.aggregations)
    weights = stack(round.links, answered.shape[1], rule.memory, round.models.dense.dtype, round.models.device)
    with _rule_errors("aggregation", rule, "weigh"):
        new = rule.weigh(mixing, weights)
        _check_weights(type(rule).__name__, new, weights, finite=finite)
    shares = shares_of(new.raw, mixing.present)
    with _rule_errors("aggregation", rule, "mix"):
        rule.mix(mixing, shares)
    # What a released model is worth says nothing of the tallies that come with it: they have a trust of their own.
    hear(mixing if method.privacy is None else mixing.among(answered, mixing.records), round.links, round.overheard)
    unstack(new, round.links)
    places = zip(round.links, round.publications, round.aggregations, answered.tolist(), strict=True)
    for links, numbers, aggregation, came in places:
        for peer, number, there in zip(links.neighbours, numbers, came, strict=False):
            if there:
                links.known[peer].publication, links.known[peer].pulled_at = number, aggregation
    if round.overheard is not None:
        _note_heard(round, round.overheard)
    rows: list[list[float]] = shares.tolist()
    return rows


def _note_heard(round: Round, overheard: Overheard) -> None:
    places = zip(round.links, overheard.publications, round.aggregations, overheard.present.tolist(), strict=True)
    for links, numbers, aggregation, came in places:
        for peer, number, there in zip(links.others, numbers, came, strict=False):
            if there:
                links.ears[peer].publication, links.ears[peer].pulled_at = number, aggregation


@contextlib.contextmanager
def _rule_errors(field: str, rule: object, method: str) -> Iterator[None]:
    """Turn whatever a rule raises into a ``RuleError`` that names it."""
    try:
        yield
    except RuleError:
        raise
    except Exception as error:
        text = f"{field}: {type(rule).__name__}.{method} failed ({type(error).__name__}: {error})"
        raise RuleError(text) from error


def _check_weights(rule: str, new: Weights, last: Weights, *, finite: bool) -> None:
    """Refuse what a rule returns if it can't be mixed with, or kept for the next round."""
    shape = tuple(last.raw.shape)
    if new.raw.shape != shape or bool((new.raw < 0).any()):
        raise RuleError(f"aggregation: {rule}.weigh must return raw weights of 0 or more, of shape {shape}")
    if new.numbers.keys() != last.numbers.keys() or any(x.shape != shape for x in new.numbers.values()):
        names = ", ".join(last.numbers) or "no"
        raise RuleError(f"aggregation: {rule}.weigh must return {names} numbers, of shape {shape}, as its memory says")
    if finite and not all(bool(torch.isfinite(x).all()) for x in (new.raw, *new.numbers.values())):
        raise RuleError(f"aggregation: {rule}.weigh returned weights or numbers that are not finite")


def select(
    method: Method,
    edge: P,
    links: Links[P],
    *,
    aggregations: int,
    candidates: Sequence[P],
    topology: Mapping[P, Mapping[P, float]],
    absent: Collection[P] = (),
    rng: random.Random,
) -> None:
    """Choose an edge's neighbours by the method's rule, if it is time to, and whom else it hears.

    aggregations: rounds that the edge has finished before this one. topology: neighbours and shares that others have
    announced. absent: neighbours whose model did not come in this round.
    """
    rule = method.selection
    if method.trial is not None:
        for peer in links.neighbours:
            method.trial.note_presence(links.known[peer], peer not in absent, aggregations)
    if (aggregations + 1) % rule.every:
        return
    excluded = (j for j, link in links.known.items() if link.is_excluded(aggregations + 1))
    resting = set(excluded) if method.privacy is None else set()  # whom an edge asks tells what it thinks of others
    candidates = [j for j in candidates if j not in resting] if resting else candidates
    view = View(
        edge=edge,
        neighbours=links.neighbours,
        candidates=candidates,
        shares=links.shares(),
        topology={j: topology.get(j, {}) for j in links.neighbours},
        remembered=links.remembered(),
    )
    with _rule_errors("selection", rule, "choose"):
        chosen = allowed(method, edge, candidates, rule.choose(view, rng))
    links.switch(chosen, method.aggregation.memory)
    listen(edge, links, candidates, method.others, rng)


def join(method: Method, edge: P, candidates: Sequence[P], rng: random.Random) -> Links[P]:
    """The first neighbours of an edge, and whom else it hears."""
    with _rule_errors("selection", method.selection, "first"):
        chosen = allowed(method, edge, candidates, method.selection.first(edge, candidates, rng))
    links = Links.start(chosen, method.aggregation.memory)
    listen(edge, links, candidates, method.others, rng)
    return links


def allowed(method: Method, edge: P, candidates: Sequence[P], chosen: Sequence[P]) -> Sequence[P]:
    """What a selection rule has chosen, if it may be chosen: candidates, each once, never the edge itself."""
    wrong = [j for j in chosen if j == edge or j not in candidates]
    if wrong or len(set(chosen)) < len(chosen):
        name = type(method.selection).__name__
        raise RuleError(f"selection: {name} chose {list(chosen)!r} for {edge!r}; allowed: other candidates, each once")
    return chosen
