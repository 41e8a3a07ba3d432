"""The audit of a live edge by its own data folder, running or stopped: reads files, and writes none."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from alphaedge.audit.audit import Audit, Report, audit_edge
from alphaedge.audit.canaries import FEWEST, rounds_and_events
from alphaedge.audit.journal_events import JournalEvents, read_events
from alphaedge.audit.one_run import NoiseOf, learning_of, lot_sizes
from alphaedge.audit.publication_attack import PublicationAttack, attack_publication
from alphaedge.core.model import Model
from alphaedge.core.privacy.settings import Privacy
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.config import load as load_config
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.noise_key import SecretNoise
from alphaedge.edge.learning.saved_learner import read_learner
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.errors import InvalidValue

JOURNAL: Final = "journal.db"
LABELLED: Final = "journal: events with a label"


@final
@dataclass(frozen=True)
class LiveAudit:
    """What the audit of a live edge has found.

    publication: attacks on what the edge has published. promise: attacks on what it promises, by canaries among its own
    events; None without method.privacy. passed_over: whether some events count as learned, though batches were undone.
    """

    edge: str
    publication: PublicationAttack
    promise: Audit | None
    passed_over: bool

    @property
    def broken(self) -> bool:
        """Whether more was observed than promised."""
        return self.promise is not None and self.promise.broken


def audit_live_edge(
    path: Path,
    *,
    canaries: int = 200,
    quick: bool = False,
    seed: int = 0,
    report: Report = lambda _, __, ___: None,
) -> LiveAudit:
    """Audit the edge of a configuration file."""
    config, folder = load_config(path), path.parent
    privacy = config.method.make().privacy
    report("publication", 0.0, "reading the newest checkpoint and the journal")
    published, found, progress = _attack(config, folder)
    if privacy is not None:
        _check_enough(config, initial_model(config), privacy, len(found.events))
    report("publication", 1.0, "done")
    promise = None
    if privacy is not None:
        size, online = config.model.batch_size, config.model.online
        promise = audit_edge(
            initial_model(config),
            found.events,
            privacy,
            online,
            config.edge,
            size,
            canaries,
            quick=quick,
            seed=seed,
            noise=_noise_of_edges(seed),
            report=report,
        )
    return LiveAudit(config.edge, published, promise, bool(progress.undone or progress.rollbacks))


def _attack(config: EdgeConfig, folder: Path) -> tuple[PublicationAttack, JournalEvents, Progress]:
    """Attack the last publication, or the one in the checkpoint before if too few labels have come since."""
    learner, progress = _read_checkpoint(config, folder)
    found = _read_journal(config, folder, learner, progress)
    last = attack_publication(learner, found)
    if last.loss_threshold is None:
        earlier, then = read_learner(config, folder, older=1)
        if then is not None and earlier.publication.number:
            before = _read_journal(config, folder, earlier, then)
            attack = attack_publication(earlier, before)
            if attack.loss_threshold is not None:
                return attack, before, then
    return last, found, progress


def _read_checkpoint(config: EdgeConfig, folder: Path) -> tuple[Learner, Progress]:
    """The state at the end of the edge's last round, in which something was published."""
    data = folder / config.data
    if not data.is_dir():
        raise InvalidValue("data", str(data), "the data folder of an edge that has run, on this machine")
    learner, progress = read_learner(config, folder)
    kept = data / "checkpoints"
    if progress is None:
        others = Checkpoints(kept).others(model_schema(config, learner.model)) if kept.is_dir() else set()
        what = "those of other models only" if others else None
        raise InvalidValue("checkpoints", what, "one of this model; an edge writes it at the end of its first round")
    if not learner.publication.number:
        raise InvalidValue("publication", 0, "1 or more: this edge has told its peers nothing yet, so wait for a round")
    return learner, progress


def _read_journal(config: EdgeConfig, folder: Path, learner: Learner, progress: Progress) -> JournalEvents:
    """Its events with labels, and which of them were learned before the publication.

    With privacy, what was learned is in the lots up to a certain event. Without, the model was published at the end of
    the last round, and has trained on all events of it but for those on which the weights of the mix were learned
    (``core.methods``): these are trained on later, or never.
    """
    path = folder / config.data / JOURNAL
    if learner.private is not None:
        found = read_events(config, path, learner.model, learner.private.spent)
    else:
        method = learner.method
        since = learner.records - learner.publication.records
        never = 0 if method.train_on_aggregation else method.weight_batches * config.model.batch_size
        found = read_events(config, path, learner.model, progress.feedback, max(0, since, never))
    if len(found.events) < FEWEST:
        raise InvalidValue(LABELLED, len(found.events), f"at least {FEWEST}; {_kept(config)}")
    return found


def _check_enough(config: EdgeConfig, model: Model, privacy: Privacy, events: int) -> None:
    """Refuse too few events for the lots that the fewest canaries need."""
    first, size = lot_sizes(learning_of(model, privacy, config.model.batch_size), privacy, config.model.batch_size)
    rounds, each = rounds_and_events(privacy)
    lots = max(rounds, -(-FEWEST * rounds // max(1, size // (2 * each))), 2)
    if events < (least := first + lots * size):
        allowed = f"at least {least} with method.privacy: {lots} lots of {size}"
        allowed += f" after a first one of {first}" if first else ""
        raise InvalidValue(LABELLED, events, f"{allowed}; {_kept(config)}")


def _kept(config: EdgeConfig) -> str:
    seconds = config.feedback.window_seconds
    return f"it keeps those of the last feedback.window_seconds = {seconds:g} and those not learned yet"


def _noise_of_edges(seed: int) -> NoiseOf:
    """Noise as a live edge draws it, from a secret of the audit's own."""
    return SecretNoise(hashlib.blake2b(f"audit/{seed}".encode(), digest_size=32).digest(), "audit")
