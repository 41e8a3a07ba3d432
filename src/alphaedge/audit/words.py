"""What an audit has found, in plain words."""

from typing import Final

from alphaedge.audit.audit import Audit, Exposed
from alphaedge.audit.bound import Guesses
from alphaedge.audit.membership import Attack
from alphaedge.audit.rare_ids import RareIds

CHANCE: Final = 0.5


def verdict(audit: Audit) -> str:
    """The first sentence: does what was observed fit the promise?"""
    promise = f"epsilon {audit.privacy.epsilon:g}"
    if audit.broken:
        return f"This contradicts the promised {promise}: at least {audit.observed:.1f} was observed."
    if audit.observed == 0:
        return f"This fits the promise of {promise}: the guesses were no better than chance would allow."
    return f"This fits the promise of {promise}: at least {audit.observed:.1f} was observed, at 95% confidence."


def lines(audit: Audit) -> list[str]:
    """All that is to say, the verdict first."""
    unit = "events" if audit.privacy.user is None else "users"
    found = [verdict(audit), _guesses(audit.canaries.guesses, f"{unit} that stand out")]
    if audit.tallies is not None:
        found.append(_guesses(audit.tallies.guesses, "first events of an id that many name later"))
    most = audit.canaries.guesses.most
    limit = f"So many canaries can show an epsilon of {most:.1f} at most; a larger promise can't be refuted by them."
    if audit.privacy.epsilon > most:
        found.append(limit)
    found += [f"With privacy: {_exposed(audit.private)}", f"Without: {_exposed(audit.plain)}"]
    return found


def _guesses(found: Guesses, what: str) -> str:
    left = found.canaries - found.guesses
    rest = f", and would not say for {left}" if left else ""
    return (
        f"Of {found.canaries} {what}, a peer that sees everything and knows all other events was right about "
        f"{found.right} of the {found.guesses} that it dared to guess{rest}; a coin would be right about "
        f"{found.guesses // 2}."
    )


def _exposed(found: Exposed) -> str:
    parts = [attack(found.loss_threshold, "by its loss"), attack(found.lira, "with shadow models")]
    parts.append(rare_ids(found.rare_ids))
    return "; ".join(part for part in parts if part) + "."


def rare_ids(found: RareIds) -> str:
    """What is read off ids with a single event; empty if there are none."""
    if not found.ids:
        return ""
    return (
        f"of {found.ids} ids with a single event a peer gets {found.told} rows and reads {found.read} labels off them"
    )


def attack(found: Attack | None, how: str) -> str:
    """How well single events are told; empty if there were too few."""
    if found is None:
        return ""
    interval = f" ± {found.auc_ci95:.3f}" if found.auc_ci95 is not None else ""
    return (
        f"whether an event was learned from is told {how} with an AUC of {found.auc:.3f}{interval} (chance: {CHANCE}), "
        f"and {found.caught:.1%} of them are found at 1% false alarms"
    )
