"""Bodies of the feedback call, an addition to the protocol: labels of earlier predictions, and what became of them."""

from typing import Annotated, final

import msgspec
from msgspec import Meta

PredictionId = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 2**63 - 1})]


@final
class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of earlier predictions. ids: of the predictions. labels: one for each id."""

    ids: Annotated[list[PredictionId], Meta(extra_json_schema={"minItems": 1})]
    labels: Annotated[list[float], Meta(extra_json_schema={"minItems": 1})]


@final
class FeedbackCounts(msgspec.Struct, frozen=True):
    """How many labels were accepted, and how many were not.

    accepted: on disk, to be learned. known: their predictions already have a label. expired: they came after the
    feedback window. unknown: this edge has made no prediction with such an id.
    """

    accepted: int
    known: int
    expired: int
    unknown: int
