"""A shop's model in double precision: what edges of a test name as their factory."""

from functools import partial

from alphaedge import Model
from alphaedge.models.deepfm import deepfm

from ..simulation.fleets import exact, shop_data

DATA = shop_data(edges=4, events=160)


def make() -> Model:
    """The model."""
    return exact(partial(deepfm, DATA.fields))
