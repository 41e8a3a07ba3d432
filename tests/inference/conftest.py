"""Fixtures: a small store, and two real edges whose model fits it."""

from tests.replay.edges import pair, store

__all__ = ["pair", "store"]
