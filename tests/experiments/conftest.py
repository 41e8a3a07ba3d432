"""Data for the tests of experiments."""

import random
from pathlib import Path

import pytest

from ..data.archives import pack


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A MovieLens of 30 users and 40 films: ten regions, 30 batches each."""
    rng = random.Random(0)
    users = [f"{u}::{'MF'[u % 2]}::25::{u % 21}::{u % 10}2345" for u in range(1, 31)]
    movies = [f"{m}::Film {m} ({1980 + m % 20})::{'Drama|War' if m % 3 else 'Comedy'}" for m in range(1, 41)]
    ratings = []
    for t in range(15_000):
        user, movie = t % 30 + 1, rng.randint(1, 40)
        liked = rng.random() < (0.8 if (movie + user) % 3 else 0.2)
        ratings.append(f"{user}::{movie}::{5 if liked else 2}::{978300000 + t}")
    members = {"users.dat": users, "movies.dat": movies, "ratings.dat": ratings}
    pack(tmp_path, "ml-1m", {name: ("\n".join(lines) + "\n").encode("latin-1") for name, lines in members.items()})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    return tmp_path
