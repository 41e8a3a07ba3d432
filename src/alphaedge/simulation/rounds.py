"""Rounds of simulated edges: those that aggregate side by side publish, pull, mix and select (``core.round``)."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.compression import dense_bytes, row_bytes, tally_bytes
from alphaedge.core.exchange import Traffic, traffic
from alphaedge.core.hearing import Overheard
from alphaedge.core.links import Ear, Link
from alphaedge.core.round import Round, mix, select
from alphaedge.core.state import TableState
from alphaedge.core.tally import COLUMNS
from alphaedge.simulation.publications import Parcel
from alphaedge.simulation.reading import Publication, Reading
from alphaedge.simulation.run_log import Mix
from alphaedge.simulation.shards import gather
from alphaedge.simulation.world import World


def aggregate_group(world: World, edges: list[int], block: int, lost: Sequence[int] = ()) -> None:
    """The rounds of some edges that need not wait for each other; at most ``block`` are computed at once.

    lost: those whose mixed model has just started anew from the home model, which has trained on all that was revealed.
    They do not mix in this round.
    """
    for edge in edges:
        _reveal(world, edge)
    method = world.method
    for edge in lost if not method.train_ahead else ():
        numbers = torch.tensor([world.pending[edge]], dtype=torch.long, device=world.device)
        world.note_trained(torch.tensor([edge], device=world.device), numbers)
    if not method.aggregation.uses_peers:
        for edge in edges if method.train_ahead else ():
            world.pending[edge] = []
        return
    if method.publish == "trained":
        world.publish(edges)
    able = [e for e in edges if world.pending[e]]
    mixing = [e for e in able if e not in lost]
    for start in range(0, max(gather(world.shards, len(mixing))), block):  # in step with the other shards
        _mix(world, mixing[start : start + block])
    for edge in able:
        select(
            method,
            world.where(edge)[1],
            world.links[edge],
            aggregations=int(world.aggregations[edge]),
            candidates=world.candidates(edge),
            topology=world.topology(edge),
            absent=_absent(world, edge) if method.trial is not None and edge not in lost else (),
            rng=world.rng(edge, "peers"),
        )
    world.aggregations[able] += 1
    for edge in lost:
        world.pending[edge] = []
    if method.publish == "mixed":
        world.publish(edges)


def _absent(world: World, edge: int) -> list[int]:
    """Neighbours that have published something that did not come."""
    peers = world.links[edge].neighbours
    found = zip(peers, world.newest(edge, peers), world.present(edge, peers), strict=True)
    return [j for j, newest, there in found if newest and not there]


def _reveal(world: World, edge: int) -> None:
    """Note the revealed batches that this round is about; an edge that does not mix trains on them instead."""
    timeline, local = world.where(edge)
    newest = world.at[edge] - 1 - world.conditions.delay
    revealed = list(range(newest - world.method.weight_batches + 1, newest + 1))
    if revealed[0] < timeline.first[local]:
        revealed = []  # nothing is learned before the first reveal
    world.pending[edge] = revealed
    world.phase[edge] = "to train" if world.at[edge] < timeline.last[local] else "done"


def _mix(world: World, edges: list[int]) -> None:
    """Pull and mix; an edge that nobody answers goes on with its own model."""
    near = Reading.of(world, edges, [world.links[e].neighbours for e in edges]).answered()
    if world.method.train_ahead:
        for edge in {*edges}.difference(near.edges):
            world.pending[edge] = []  # it has trained on them
    edges = list(near.edges)
    device, links = world.device, [world.links[e] for e in edges]
    some = torch.tensor(edges, dtype=torch.long, device=device)
    wanted = _wanted(world, edges) if world.method.asks_for_new_ids and world.models.tables else []
    known = [_known_at_pull(since[some], world.aggregations[some]) for since in world.named.since]
    others = Reading.of(world, edges, [link.others for link in links])
    places = pull(
        world, near.needed | others.needed, some, [k | w for k, w in zip(known, wanted or known, strict=True)]
    )
    if not edges:
        return
    slot, rows, present, number = near.slot(places), near.rows, near.present, near.number
    _log_pulls(world, near, slot, rows, wanted)
    held = world.published.hold(slot, rows, present, statistics=world.method.statistics == "mixed")
    overheard = _overhear(world, others, places) if others.width else None
    revealed = torch.tensor([world.pending[e] for e in edges], device=device)
    world.go_back(some)
    pool, own = world.published, world.records[some].unsqueeze(1)
    models = world.models.select_models(some)
    shares = mix(
        world.method,
        world.gradients,
        Round(
            models=models,
            links=links,
            held=held if world.releases is None else held.without_rows(),
            publications=number.tolist(),
            aggregations=world.aggregations[some].tolist(),
            records=torch.cat([own, pool.all_records[slot]], dim=1).to(world.models.dense.dtype),
            batches=[world.batches.get(some, numbers) for numbers in revealed.unbind(1)],
            known=known,
            wanted=wanted,
            overheard=overheard,
        ),
    )
    world.models.write_models(some, models)
    for edge, link, row in zip(edges, links, shares, strict=True):
        peer_shares = dict(zip(link.neighbours, row[1:], strict=False))
        world.log.mixes[edge].append(Mix(int(world.aggregations[edge]), world.moment[edge], row[0], peer_shares))
        if not world.method.train_on_aggregation:
            world.pending[edge] = []


@final
class _Request(NamedTuple):
    """What a shard asks another one for. rows: which rows of each id table, [rows + 1]."""

    publications: list[Publication]
    rows: Sequence[Tensor]


def pull(
    world: World, needed: Collection[Publication], edges: Tensor, read: Sequence[Tensor]
) -> dict[Publication, int]:
    """Bring publications here that other shards hold; returns the places of all in the pool.

    read: per table [g, C + 1], the rows that those edges read. All shards call this equally often. What it brought
    before is gone.
    """
    shards, published = world.shards, world.published
    rows = _rows_read(world, edges, read) if shards.count > 1 else []
    requests = [_Request(sorted(p for p in needed if p[0] in part), rows) for part in world.parts]
    places = {}
    for edge, number in requests[shards.rank].publications:
        places[edge, number] = number % published.depth * published.n + edge - world.own.start
    requests[shards.rank] = _Request([], rows)
    parcels = [_pack(world, asked) if asked.publications else None for asked in shards.swap(requests)]
    guests = 0
    published.make_room(sum(len(request.publications) for request in requests))
    for request, parcel in zip(requests, shards.swap(parcels), strict=True):
        if parcel is not None:
            first = published.unpack(parcel, guests)
            places |= {publication: first + i for i, publication in enumerate(request.publications)}
            guests += len(request.publications)
    return places


def _rows_read(world: World, edges: Tensor, read: Sequence[Tensor]) -> list[Tensor]:
    """Which rows of each id table some edges read, [rows + 1]."""
    found = []
    for own, some in zip(world.batches.own_rows, read, strict=True):
        rows = some.new_zeros(own.rows + 1)
        rows[own.named[edges + world.own.start][some].long()] = True
        found.append(rows)
    return found


def _pack(world: World, asked: _Request) -> Parcel:
    edges, numbers = zip(*asked.publications, strict=True)
    named = [own.named[list(edges)].long() for own in world.batches.own_rows]
    wanted = [rows.to(which.device)[which] for rows, which in zip(asked.rows, named, strict=True)]
    return world.published.pack([edge - world.own.start for edge in edges], numbers, wanted)


def _wanted(world: World, edges: list[int]) -> list[Tensor]:
    """Rows that each edge will need for the first time before its next aggregation, per table [g, rows + 1].

    The edge would ask its peers for them at that moment; the simulator, which knows the moment, asks now.
    """
    masks = [since.new_zeros(len(edges), since.shape[1], dtype=torch.bool) for since in world.named.since]
    for g, edge in enumerate(edges):
        numbers = torch.arange(world.at[edge], world.span_end(edge)[1], device=world.device)
        needed = world.batches.rows(torch.full_like(numbers, edge), numbers)
        for mask, rows, since in zip(masks, needed, world.named.since, strict=True):
            mask[g, rows.flatten()] = True
            mask[g] &= since[edge] < 0
            mask[g, -1] = False
    return masks


def _overhear(world: World, others: Reading, places: Mapping[Publication, int]) -> Overheard:
    """The tallies of others. What they count of ids that are new to an edge comes with its next pull."""
    slot, rows, layouts = others.slot(places), others.rows, world.gradients.model.tables
    _log_tallies(world, others, slot, rows)
    tallies = world.published.tallies(slot, rows, [layout.width for layout in layouts])
    return Overheard(tallies, others.number.tolist(), others.present)


def _log_pulls(world: World, near: Reading, slot: Tensor, rows: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Count the bytes of what each edge pulls of its neighbours; what it holds already is as of before this round."""
    held = [[world.links[e].known[j] for j in world.links[e].neighbours] for e in near.edges]
    models, precision = world.models, world.method.precision
    each = models.dense.element_size()
    cost = _cost(
        world,
        near,
        held,
        slot,
        rows,
        dense_bytes=dense_bytes(models.dense.shape[1], each, precision),
        row_bytes=[
            _row_bytes(world, *shapes) for shapes in zip(models.tables, world.published.all_tables, strict=True)
        ],
        wanted=wanted if world.releases is None else (),
    )
    world.log.add_pulls(near.edges, near.peers, near.present, cost)
    for edge, numbers, there in zip(near.edges, near.numbers, near.there, strict=True):
        world.log.beyond_start[edge] += sum(n == 0 and answered for n, answered in zip(numbers, there, strict=True))


def _log_tallies(world: World, others: Reading, slot: Tensor, rows: Sequence[Tensor]) -> None:
    """Count the bytes of the tallies that each edge pulls of others."""
    held = [[world.links[e].ears[j] for j in world.links[e].others] for e in others.edges]
    number_bytes = world.models.dense.element_size()
    sizes = [tally_bytes(number_bytes, world.method.precision) * t.tallied for t in world.gradients.model.tables]
    cost = _cost(world, others, held, slot, rows, dense_bytes=0, row_bytes=sizes)
    world.log.add_pulls(others.edges, others.peers, others.present, cost, whole=False)


def _cost(
    world: World,
    read: Reading,
    held: Sequence[Sequence[Link | Ear]],
    slot: Tensor,
    rows: Sequence[Tensor],
    *,
    dense_bytes: int,
    row_bytes: Sequence[int],
    wanted: Sequence[Tensor] = (),
) -> Traffic:
    edges = torch.tensor(read.edges, device=world.device)
    return traffic(
        dense_bytes=dense_bytes,
        row_bytes=row_bytes,
        held_rows=[(version[slot] > 0).sum(2) for version in world.published.all_version],
        versions=world.published.versions(slot, rows),
        known_since=[_asked_since(world, since[edges]) for since in world.named.since],
        publication=read.padded([[x.publication for x in row] for row in held], -1),
        pulled_at=read.padded([[x.pulled_at for x in row] for row in held], -1),
        present=read.present,
        wanted=wanted,
    )


def _row_bytes(world: World, table: TableState, pool: Tensor) -> int:
    """Bytes of a row in a pull: of its parameters and its tally; with privacy of the tally alone."""
    each, precision = pool.element_size(), world.method.precision
    if world.releases is not None:
        return row_bytes(0, COLUMNS, each, precision)
    return row_bytes(table.width, pool.shape[2], each, precision)


def _asked_since(world: World, since: Tensor) -> Tensor:
    """From which aggregation on rows are asked for; with privacy all of them, so that no request tells of an id."""
    return since if world.releases is None else torch.zeros_like(since)


def _known_at_pull(since: Tensor, aggregations: Tensor) -> Tensor:
    """Which rows an edge knew when it pulled, [g, rows + 1]: not those of the batches after that."""
    return (since >= 0) & (since <= aggregations.unsqueeze(1))
