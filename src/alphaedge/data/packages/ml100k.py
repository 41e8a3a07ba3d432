"""MovieLens-100k: will a user like a film? One edge per occupation of the users, 21 in all.

Ratings of 4 and 5 are positives. Ids are users, who belong to one edge, and films, which belong to all. Edges are alike
and of very different sizes: 299 ratings by homemakers, 21,957 by students.

Source: the package recbole (MIT); data of GroupLens, for research. Harper and Konstan, ACM TiiS 2015.
"""

from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import code_field, codes, number_edges, split_by_edge
from alphaedge.data.packages.package import read
from alphaedge.data.packages.sources import RECBOLE
from alphaedge.data.stream import Dataset

PACKAGE: Final = RECBOLE
AGES: Final = (18, 25, 35, 45, 50, 56)  # where age groups begin, as in MovieLens-1M
LIKED: Final = 4


def load() -> Dataset:
    """Load all ratings, in order of time."""
    users = _table("user").select(
        "user_id",
        "occupation",
        gender=codes(pl.col("gender")),
        age=sum((pl.col("age").cast(pl.Int64) >= a).cast(pl.Int64) for a in AGES),
    )
    films = _table("item").select("item_id", "class", decade=pl.col("release_year").str.slice(0, 3))
    genres = sorted({g for text in films["class"].fill_null("") for g in text.split()})
    films = films.with_columns(
        *(pl.col("class").fill_null("").str.split(" ").list.contains(g).alias(g) for g in genres),
        decade=codes(pl.col("decade")),
    )
    ratings = _table("inter").join(users, on="user_id", how="inner").join(films, on="item_id", how="inner")
    frame, names = number_edges(ratings, "occupation")
    frame = frame.with_columns(
        user=codes(pl.col("user_id").cast(pl.Int64)),
        film=codes(pl.col("item_id").cast(pl.Int64)),
        time=pl.col("timestamp").cast(pl.Float64),
        label=pl.col("rating").cast(pl.Float64) >= LIKED,
    )
    fields = (
        code_field(frame, "user", "id"),
        code_field(frame, "film", "id"),
        Field("gender", "code", 2),
        Field("age", "code", len(AGES) + 1),
        code_field(frame, "decade", "code"),
        Field("genres", "set", len(genres)),
    )
    parts = split_by_edge(frame, len(names), fields, {"genres": genres})
    return Dataset("ml-100k", "classify", fields, parts, names=names)


def _table(kind: str) -> pl.DataFrame:
    """Read a table of recbole: tabs, no quotes, and headings such as ``user_id:token``."""
    content = read(PACKAGE, f"ml-100k/ml-100k.{kind}")
    return pl.read_csv(content, separator="\t", quote_char=None, infer_schema=False).rename(
        lambda name: name.partition(":")[0]
    )
