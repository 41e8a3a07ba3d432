"""Checks an edge's promise before it starts, and says it in a sentence."""

from pathlib import Path
from typing import Final

from alphaedge.core.fields import WHOLE
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import epsilon_after, may_open
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.settings import Privacy
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.learning.ledger_file import read_note
from alphaedge.errors import InvalidValue

WINDOWS: Final = 30  # that the sentence adds up
HOUR_SECONDS: Final = 3600.0


def check_promise(config: EdgeConfig, model: Model, folder: Path, now: float) -> list[str]:
    """Check what an edge promises about its users; the promise, if there is one. folder: of its data."""
    privacy = config.method.make().privacy
    if privacy is None:
        return []
    kinds = {field.name: field.kind for field in config.model.fields}
    if privacy.user is not None and kinds.get(privacy.user) not in WHOLE:
        allowed = ", ".join(name for name, kind in kinds.items() if kind in WHOLE)
        raise InvalidValue("method.privacy.user", privacy.user, f"a field with one value for each event: {allowed}")
    gradients = PerExampleGradients(model)
    Mechanism.of(privacy, model, gradients.statistics, config.model.batch_size * privacy.lot_batches)
    note = read_note(folder)
    ledger = note.ledger(privacy) if note is not None else None
    if ledger is not None and not may_open(privacy, ledger, privacy.window(now)):
        needed = epsilon_after(privacy, ledger.windows + 1)
        raise InvalidValue(
            "method.privacy.total_epsilon",
            privacy.total_epsilon,
            f"{needed:.4g} or more: it is spent after {ledger.windows} windows, and one more comes to that",
        )
    return [promise(privacy)]


def promise(privacy: Privacy) -> str:
    """What an edge promises, in a sentence.

    >>> print(promise(Privacy(user="user")))
    privacy: epsilon 8 and delta 1e-06 for each user in every 24 hours; over 30 of these epsilon 72.9 and delta 3e-05
    """
    who = "event" if privacy.user is None else privacy.user
    total = f"epsilon {epsilon_after(privacy, WINDOWS):.3g} and delta {WINDOWS * privacy.delta:g}"
    window = f"{privacy.window_seconds / HOUR_SECONDS:g} hours"
    each = f"epsilon {privacy.epsilon:g} and delta {privacy.delta:g} for each {who} in every {window}"
    if privacy.user is None:
        return f"privacy: {each}, and no more in all windows together, since an event counts once"
    return f"privacy: {each}; over {WINDOWS} of these {total}"
