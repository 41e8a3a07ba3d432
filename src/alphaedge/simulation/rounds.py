"""A meeting: edges that aggregate side by side publish, fetch models, learn weights, mix and choose peers."""

from typing import TypeVar

import torch
from torch import Tensor

from alphaedge.core.aggregation import Alone, ByRecords, HeldModels, Learned, Weights, aggregate, pulled, shares
from alphaedge.core.exchange import traffic
from alphaedge.core.links import stack, unstack
from alphaedge.core.selection import View
from alphaedge.simulation.run_log import Mix
from alphaedge.simulation.world import World

T = TypeVar("T")


def aggregate_group(world: World, edges: list[int], block: int) -> None:
    """The aggregations of some edges that need not wait for each other; at most ``block`` are computed at once."""
    for edge in edges:
        _reveal(world, edge)
    if isinstance(world.method.aggregation, Alone):
        return
    if world.method.publish == "trained":
        world.publish(edges)
    able = [e for e in edges if world.pending[e]]
    for start in range(0, len(able), block):
        _mix(world, able[start : start + block])
    every = world.method.selection.every
    chosen = {e: _choose(world, e) for e in able if (int(world.aggregations[e]) + 1) % every == 0}
    newcomers = world.method.aggregation if isinstance(world.method.aggregation, Learned) else Learned()
    for edge, neighbours in chosen.items():
        world.links[edge].switch(neighbours, newcomers)
    world.aggregations[able] += 1
    if world.method.publish == "mixed":
        world.publish(edges)


def _reveal(world: World, edge: int) -> None:
    """Note the revealed batches that this aggregation is about; whoever does not mix trains on them instead."""
    timeline, local = world.where(edge)
    newest = world.at[edge] - 1 - world.conditions.delay
    revealed = list(range(newest - world.method.gathered + 1, newest + 1))
    if revealed[0] < timeline.first[local]:
        revealed = []  # nothing is learned before the first reveal
    world.pending[edge] = revealed
    world.state[edge] = "to train" if world.at[edge] < timeline.last[local] else "done"


def _mix(world: World, edges: list[int]) -> None:
    """Fetch, learn the weights and mix; an edge that nobody answers goes on with its own model."""
    present_of = {e: world.present(e) for e in edges}
    edges = [e for e in edges if any(present_of[e])]
    if not edges:
        return
    some, links = torch.tensor(edges), [world.links[e] for e in edges]
    width = max(len(link.neighbours) for link in links)
    peers = torch.tensor([_padded(world.neighbours(e), width, e) for e in edges])
    present = torch.tensor([_padded(present_of[e], width, False) for e in edges])
    slot, number = world.published.slot(peers, world.conditions.staleness)
    wanted = _wanted(world, edges) if world.method.adopt_rows and world.fleet.tables else []
    _note_fetches(world, edges, slot, number, present, wanted)
    pool = world.published
    fetched = HeldModels(
        pool.dense.flatten(0, 1),
        tuple(t.flatten(0, 1) for t in pool.tables),
        tuple((v > 0).flatten(0, 1) for v in pool.version),
        {name: b.flatten(0, 1) for name, b in pool.statistics.items() if world.method.statistics == "mixed"},
        slot,
        present,
    )
    revealed = torch.tensor([world.pending[e] for e in edges])
    batches = [world.batches.get(some, numbers) for numbers in revealed.unbind(1)]
    models = world.fleet.models(some)
    rule = world.method.aggregation
    known = [since[some] >= 0 for since in world.known_since]
    weights = _weights(world, some, slot, present)
    weights = aggregate(models, fetched, weights, rule, batches, world.gradients, known, wanted)
    world.fleet.put_models(some, models)
    if isinstance(rule, Learned):
        unstack(weights, links)
    for edge, link, row in zip(edges, links, shares(weights.raw, present).tolist(), strict=True):
        peer_shares = dict(zip(link.neighbours, row[1:], strict=False))
        world.record.mixes[edge].append(Mix(int(world.aggregations[edge]), world.moment[edge], row[0], peer_shares))
        if not world.method.train_on_aggregation:
            world.pending[edge] = []


def _weights(world: World, edges: Tensor, slot: Tensor, present: Tensor) -> Weights:
    rule, dtype = world.method.aggregation, world.fleet.dense.dtype
    own = world.records[edges].unsqueeze(1)
    records = torch.cat([own, world.published.records.flatten()[slot]], dim=1).to(dtype)
    if isinstance(rule, Learned):
        learned = stack([world.links[e] for e in edges.tolist()], slot.shape[1], dtype)
        return pulled(learned, present, records, rule)
    return Weights.fixed(records if isinstance(rule, ByRecords) else torch.ones_like(records))


def _choose(world: World, edge: int) -> list[int]:
    base, links = world.base(edge), world.links[edge]
    view = View(
        edge=edge - base,
        neighbours=links.neighbours,
        candidates=world.candidates(edge),
        shares=links.shares(),
        topology={j: world.topology[base + j] for j in links.neighbours},
        remembered=links.remembered(),
    )
    return world.method.selection.choose(view, world.rng(edge, "peers"))


def _wanted(world: World, edges: list[int]) -> list[Tensor]:
    """Rows that each edge will need for the first time before its next aggregation, per table [g, rows + 1].

    The edge would ask its peers for them at that moment; the simulator, which knows the moment, asks now.
    """
    masks = [torch.zeros(len(edges), since.shape[1], dtype=torch.bool) for since in world.known_since]
    for g, edge in enumerate(edges):
        numbers = torch.arange(world.at[edge], world.stretch_end(edge)[1])
        needed = world.batches.rows(torch.full_like(numbers, edge), numbers)
        for mask, rows, since in zip(masks, needed, world.known_since, strict=True):
            mask[g, rows.flatten()] = True
            mask[g] &= since[edge] < 0
            mask[g, -1] = False
    return masks


def _note_fetches(
    world: World, edges: list[int], slot: Tensor, number: Tensor, present: Tensor, wanted: list[Tensor]
) -> None:
    """Count the bytes of a fetch, and note what each edge holds of its peers from now on."""
    held = [[world.links[e].known[j] for j in world.links[e].neighbours] for e in edges]
    width, fleet = slot.shape[1], world.fleet
    cost = traffic(
        dense_bytes=fleet.dense.shape[1] * fleet.dense.element_size(),
        row_bytes=[t.value.shape[2] * t.value.element_size() for t in fleet.tables],
        versions=[v.flatten(0, 1)[slot] for v in world.published.version],
        known_since=[since[edges] for since in world.known_since],
        publication=torch.tensor([_padded([x.publication for x in row], width, -1) for row in held]),
        fetched_at=torch.tensor([_padded([x.fetched_at for x in row], width, -1) for row in held]),
        present=present,
        wanted=wanted,
    )
    world.record.fetched(edges, [world.links[e].neighbours for e in edges], present, cost)
    for edge, row, numbers, there in zip(edges, held, number.tolist(), present.tolist(), strict=True):
        for link, publication, answered in zip(row, numbers, there, strict=False):
            if answered:
                link.publication, link.fetched_at = publication, int(world.aggregations[edge])
                world.record.beyond_start[edge] += publication == 0


def _padded(values: list[T], width: int, filler: T) -> list[T]:
    return values + [filler] * (width - len(values))
