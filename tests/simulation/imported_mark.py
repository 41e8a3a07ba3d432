"""Shows by its presence in ``sys.modules`` that an import path was followed."""


def make() -> None:
    """Makes nothing of use."""
