"""Pulls across shards: the publications of other shards that edges are about to read, brought here."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, final

from torch import Tensor

from alphaedge.simulation.publications import Parcel
from alphaedge.simulation.world import World

Publication = tuple[int, int]  # whose, numbered through all runs, and which


@final
class _Request(NamedTuple):
    """What a shard asks another one for. rows: which of their rows, per table [rows + 1]."""

    publications: list[Publication]
    rows: Sequence[Tensor]


def pull(world: World, needed: Collection[Publication], rows: Sequence[Tensor]) -> dict[Publication, int]:
    """Bring publications here that other shards hold; returns the places of all in the pool.

    rows: per table [rows + 1], which are read. All shards call this equally often. What it brought before is gone.
    """
    shards, published = world.shards, world.published
    requests = [_Request(sorted(p for p in needed if p[0] in part), rows) for part in world.parts]
    places = {}
    for edge, number in requests[shards.rank].publications:
        places[edge, number] = number % published.depth * published.edges + edge - world.own.start
    requests[shards.rank] = _Request([], rows)
    parcels = [_pack(world, asked) if asked.publications else None for asked in shards.swap(requests)]
    guests = 0
    for request, parcel in zip(requests, shards.swap(parcels), strict=True):
        if parcel is not None:
            first = published.unpack(parcel, guests)
            places |= {publication: first + i for i, publication in enumerate(request.publications)}
            guests += len(request.publications)
    return places


def _pack(world: World, asked: _Request) -> Parcel:
    edges, numbers = zip(*asked.publications, strict=True)
    return world.published.pack([edge - world.own.start for edge in edges], numbers, asked.rows)
