"""A batch of a live edge, as the journal gives it."""

from typing import NamedTuple

from torch import Tensor

from alphaedge.edge.inputs.lookup import Inputs


class Examples(NamedTuple):
    """A batch with its labels.

    first, last: numbers of its first and its last feedback in the journal. time: of the newest of them, in seconds.
    """

    inputs: Inputs
    labels: Tensor
    first: int = 0
    last: int = 0
    time: float = 0.0
