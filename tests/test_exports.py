"""The public API is frozen: a name that comes or goes is a decision, and this file has to say so."""

import alphaedge

PUBLIC = {
    # simulate and what it takes
    "simulate", "Settings", "MethodSettings", "Conditions", "Results",
    # data
    "Dataset", "Stream", "Field", "Store", "synthetic",
    # models
    "Model", "IdTable", "Loss", "Adagrad", "Adam", "SGD",
    # methods and their parts
    "Method", "AlphaEdge", "RandPS", "NoPS", "FedWeight", "UniWeight", "NoAgg",
    "Learned", "ByRecords", "Uniform", "Alone",
    "Greedy", "Random", "Everybody", "Fixed", "Nobody",
    "Home",
    # a live edge in one's own process
    "Edge",
    # errors
    "AlphaEdgeError", "InvalidValue", "ModelError",
}  # fmt: skip


def test_the_public_names_are_frozen() -> None:
    assert set(alphaedge.__all__) == PUBLIC
    assert len(alphaedge.__all__) == len(PUBLIC)


def test_every_public_name_exists_and_says_what_it_is() -> None:
    assert all(getattr(alphaedge, name).__doc__ for name in alphaedge.__all__)


def test_every_public_thing_lives_in_the_package() -> None:
    assert all(getattr(alphaedge, name).__module__.startswith("alphaedge.") for name in alphaedge.__all__)


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert alphaedge.__version__ == version("alphaedge")
