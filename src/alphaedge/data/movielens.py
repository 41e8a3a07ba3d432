"""MovieLens-1M: will a user like a film? One edge per first digit of the user's zip code.

Ratings of 4 and 5 are positives. As in the paper, 10% of the labels of one edge are flipped. Here it is edge 0, and it
is scored on the flipped labels. Harper and Konstan, ACM TiiS 2015; https://grouplens.org/datasets/movielens/1m.
"""

from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.archive import Archive, read
from alphaedge.data.event_frame import split_by_edge
from alphaedge.data.stream import Dataset

ARCHIVE: Final = Archive(
    "ml-1m",
    "https://grouplens.org/datasets/movielens/1m",
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    {
        "ratings.dat": "a89aa3591bc97d6d4e0c89459ff39362",
        "users.dat": "681c0711d0d4548cd3d4718a49c2dcd8",
        "movies.dat": "ef9fd9ff8d1b33faf73e2122c371e910",
    },
)
EDGES: Final = 10
NOISY_EDGE: Final = 0
USERS, MOVIES, OCCUPATIONS = 6040, 3952, 21
AGES: Final = (1, 18, 25, 35, 45, 50, 56)
GENRES: Final = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
FIELDS: Final = (
    Field("user", "id", USERS),
    Field("movie", "id", MOVIES),
    Field("gender", "code", 2),
    Field("age", "code", len(AGES)),
    Field("occupation", "code", OCCUPATIONS),
    Field("genres", "set", len(GENRES)),
    Field("year", "number"),
)


def load() -> Dataset:
    """Load all ratings, in order of time."""
    users = _table(
        "users.dat", {"user": pl.Int64, "sex": pl.String, "years": pl.Int64, "job": pl.Int64, "zip": pl.String}
    )
    users = users.select(
        pl.col("user") - 1,
        gender=(pl.col("sex") == "M").cast(pl.Int64),
        age=pl.col("years").replace_strict(dict(zip(AGES, range(len(AGES)), strict=True)), return_dtype=pl.Int64),
        occupation="job",
        edge=pl.col("zip").str.head(1).cast(pl.Int64),
    )
    movies = _table("movies.dat", {"movie": pl.Int64, "title": pl.String, "kinds": pl.String})
    movies = movies.select(
        pl.col("movie") - 1,
        *(pl.col("kinds").str.split("|").list.contains(g).cast(pl.Float32).alias(g) for g in GENRES),
        year=(pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Float32)),
    )
    ratings = _table("ratings.dat", dict.fromkeys(("user", "movie", "rating", "time"), pl.Int64))
    frame = ratings.select(
        pl.col("user") - 1, pl.col("movie") - 1, "time", label=(pl.col("rating") >= 4).cast(pl.Float32)
    )
    frame = frame.join(users, on="user", how="left").join(movies, on="movie", how="left")
    return Dataset(
        "movielens",
        "classify",
        FIELDS,
        split_by_edge(frame, EDGES, FIELDS, {"genres": GENRES}),
        noise={NOISY_EDGE: 0.1},
        values={name: [str(n + 1) for n in range(size)] for name, size in (("user", USERS), ("movie", MOVIES))},
    )


def _table(member: str, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    # A CSV reader takes neither separators of two characters nor Latin-1, the encoding of the titles.
    text = read(ARCHIVE, member).getvalue().decode("latin-1").replace("::", "\t")
    return pl.read_csv(
        text.encode(),
        separator="\t",
        has_header=False,
        new_columns=list(schema),
        schema_overrides=schema,
        quote_char=None,
    )
