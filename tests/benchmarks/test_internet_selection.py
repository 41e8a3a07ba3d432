"""Selection for a whole fleet at once chooses as the edges of the project do, one by one."""

import random
from typing import Any

import numpy as np
import pytest

from alphaedge.core.links import Link, Links
from alphaedge.core.methods import alphaedge_trusting
from alphaedge.core.round import select as select_one
from benchmarks.internet import selection
from benchmarks.internet.selection import Fleet
from benchmarks.internet.worlds import NOBODY, Ints, LearnedWeights, plant

METHOD = alphaedge_trusting()
RULE, MEMORY = METHOD.selection, METHOD.aggregation.memory


def anybody(edges: int) -> selection.Draw:
    return lambda rows, count, rng: rng.integers(edges, size=(len(rows), count)).astype(np.int32)


def links_of(fleet: Fleet, edge: int) -> Links[int]:
    """What an edge of the fleet knows, as an edge of the project keeps it."""
    links: Links[int] = Links(Link(1.0), [int(j) for j in fleet.neighbours[edge] if j != NOBODY])
    for peers, weights in ((fleet.neighbours, fleet.weights), (fleet.former, fleet.remembered)):
        for peer, weight in zip(peers[edge], weights[edge], strict=True):
            if peer != NOBODY:
                links.known[int(peer)] = Link(float(weight))
    return links


def weights_of(links: Links[int], *, neighbours: bool) -> dict[int, float]:
    return {j: link.weight for j, link in links.known.items() if (j in links.neighbours) == neighbours}


@pytest.mark.parametrize("likeness", [0.0, 0.5])
@pytest.mark.parametrize("event", ["nothing", "churn", "partition"])
def test_the_whole_fleet_chooses_what_each_edge_would(likeness: float, event: str) -> None:
    edges, rng = 80, np.random.default_rng(7)
    cluster, weights = plant(edges, 10, rng), LearnedWeights(likeness=likeness)
    fleet = Fleet.start(edges, RULE, MEMORY, anybody(edges), rng, remembers=2 * edges)
    greedy_choices = 0
    for number in range(16):
        if event == "churn":
            fleet.replace(rng.choice(edges, 8, replace=False).astype(np.int32), MEMORY, anybody(edges), rng)
        if event == "partition":
            fleet.side[: edges // 2] = 5 <= number < 10
        announced = fleet.shares() * (
            1 + 1e-3 * rng.random(fleet.neighbours.shape)
        )  # no ties, which chance would break
        topology = {
            i: dict(zip(fleet.neighbours[i].tolist(), announced[i].tolist(), strict=True)) for i in range(edges)
        }
        fleet.weights = weights.draw(cluster[:, None], cluster[fleet.neighbours], rng)
        fleet.weights += 1e-6 * rng.random(fleet.weights.shape)
        before = [links_of(fleet, edge) for edge in range(edges)]
        two_hop = [two_hop_neighbours(links, topology) for links in before]
        selection.select(fleet, announced, RULE, MEMORY, anybody(edges), rng)
        for edge, links in enumerate(before):
            old, after = set(links.neighbours), links_of(fleet, edge)
            reachable = [j for j in range(edges) if fleet.side[j] == fleet.side[edge]]
            rng_of_edge = random.Random(edge)
            select_one(
                METHOD, edge, links, aggregations=number, candidates=reachable, topology=topology, rng=rng_of_edge
            )
            ours, theirs = set(after.neighbours), set(links.neighbours)
            assert len(ours) == len(theirs) == RULE.peers
            assert ours & (old | two_hop[edge]) == theirs & (old | two_hop[edge]), "all that is not drawn at random"
            if ours == theirs:
                greedy_choices += bool(ours - old)
                assert weights_of(after, neighbours=True) == pytest.approx(weights_of(links, neighbours=True))
                assert weights_of(after, neighbours=False) == pytest.approx(weights_of(links, neighbours=False))
    assert greedy_choices > 200, "the comparison is about something"


def two_hop_neighbours(links: Links[int], topology: dict[int, dict[int, float]]) -> set[int]:
    return {k for j in links.neighbours for k, share in topology[j].items() if share > 0}


def test_an_edge_is_never_its_own_neighbour_and_has_none_twice() -> None:
    edges, rng = 40, np.random.default_rng(1)
    cluster, weights = plant(edges, 10, rng), LearnedWeights()
    fleet = Fleet.start(edges, RULE, MEMORY, anybody(edges), rng)
    for _ in range(40):
        announced = fleet.shares()
        fleet.weights = weights.draw(cluster[:, None], cluster[fleet.neighbours], rng)
        selection.select(fleet, announced, RULE, MEMORY, anybody(edges), rng)
        for edge, row in enumerate(fleet.neighbours.tolist()):
            assert edge not in row
            assert len(set(row)) == len(row)


def test_the_work_of_a_selection_grows_with_the_edges_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in candidates, of which every edge looks at no more than K^2 + 2K, however large the fleet is."""
    seen: list[tuple[int, ...]] = []
    original = selection.find_candidates

    def counted(*arguments: Any) -> Ints:
        found = original(*arguments)
        seen.append(found.shape)
        return found

    monkeypatch.setattr(selection, "find_candidates", counted)
    rng = np.random.default_rng(0)
    for edges in (100, 10_000):
        fleet = Fleet.start(edges, RULE, MEMORY, anybody(edges), rng)
        seen.clear()
        selection.select(fleet, fleet.shares(), RULE, MEMORY, anybody(edges), rng)
        assert sum(rows for rows, _ in seen) == edges
        assert {width for _, width in seen} == {RULE.peers**2 + 2 * RULE.peers}
