"""What the audit of a live edge has found, in plain words."""

from typing import Final

from alphaedge.audit import words
from alphaedge.audit.live_edge import LiveAudit
from alphaedge.audit.membership import FEWEST
from alphaedge.audit.publication_attack import PublicationAttack

DRIFT: Final = (
    "Events that came later may differ from earlier ones in more than that, so this is an indication and no proof: "
    "where customers or seasons change, drift looks like membership."
)
PASSED_OVER: Final = (
    "Some batches of this edge were undone or passed over; their events count as learned here, though they were not."
)


def verdict(audit: LiveAudit) -> str:
    """The first sentence: of the promise, or that there is none."""
    if audit.promise is not None:
        return words.verdict(audit.promise)
    nothing = "This edge promises nothing, since method.privacy is off"
    if audit.publication.loss_threshold is None:
        return f"{nothing}; there are too few events to say what its publication tells."
    if audit.publication.tells:
        return f"{nothing}, and its publication seems to tell which events it has learned."
    return f"{nothing}; this attack does not tell which events it has learned."


def lines(audit: LiveAudit) -> list[str]:
    """All that is to say, the verdict first."""
    said = [verdict(audit), *_publication(audit.edge, audit.publication)]
    if audit.passed_over:
        said.append(PASSED_OVER)
    if audit.promise is not None:
        said.append("The promise, tried on the events of the edge's own journal:")
        said += words.lines(audit.promise)[1:]
    return said


def _publication(edge: str, found: PublicationAttack) -> list[str]:
    counts = f"{found.learned} events that it had learned, and {found.later} whose labels came too late for it"
    said = [f"Publication {found.number} of {edge}: the journal still has {counts}."]
    if found.loss_threshold is None:
        said.append(f"These are too few to attack it: that takes {FEWEST} of either kind.")
    else:
        said += [f"From it, {words.attack(found.loss_threshold, 'by its loss')}.", f"{DRIFT} {_drift(found)}"]
    if rare := words.rare_ids(found.rare_ids):
        said.append(f"From it, {rare}.")
    return said


def _drift(found: PublicationAttack) -> str:
    if found.drift is None:
        return "There are too few later events to say how large the drift is."
    interval = f" ± {found.drift.auc_ci95:.3f}" if found.drift.auc_ci95 is not None else ""
    return (
        f"For comparison, among the later events alone, none of which was learned, the same attack tells the earlier "
        f"half from the other with an AUC of {found.drift.auc:.3f}{interval}."
    )
