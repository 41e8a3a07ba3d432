"""A model in double precision, which edges in tests name as their factory."""

from functools import partial

from alphaedge import Model
from alphaedge.models.deepfm import deepfm

from ..simulation.fleets import exact, shop_data

DATA = shop_data(edges=4, events=160)


def make() -> Model:
    """Make the model."""
    return exact(partial(deepfm, DATA.fields))
