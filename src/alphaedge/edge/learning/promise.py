"""An edge's promise on disk: the secret of its noise, and the newest ledger of what it has published."""

from pathlib import Path
from typing import final

from alphaedge.core.privacy.settings import Privacy
from alphaedge.edge.config import ModelConfig
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.ledger_file import keep_newest, read_note, terms_of, write_note
from alphaedge.edge.learning.noise_key import LotNoise, SecretNoise, load_secret, no_noise
from alphaedge.edge.log import warn


@final
class Promise:
    """The promise of one edge. folder: of its data. privacy: None if it promises nothing."""

    def __init__(self, folder: Path, privacy: Privacy | None, schema: str, model: ModelConfig) -> None:
        self._folder, self._privacy, self._schema, self._model = folder, privacy, schema, model
        self._noise: SecretNoise | None = None
        self._terms = ""
        self._since = self._noted = 0  # ``spent`` of the last checkpoint, and of the ledger on disk
        self._said = False  # that the budget is spent

    def noise(self, first: int, read: bytes) -> LotNoise:
        """The noise of the lot whose first event has this number. read: a digest of all that its step reads."""
        return (self._noise or no_noise)(first, read)

    def take_up(self, learner: Learner) -> None:
        """Begin with a restored state. It must not publish again, with other noise, what was published before."""
        private, privacy = learner.private, self._privacy
        if private is None or privacy is None:
            return
        secret = load_secret(self._folder, released=private.spent > 0)
        self._terms = terms_of(privacy, self._schema, self._model, secret)
        self._noise = SecretNoise(secret, self._terms)
        note = read_note(self._folder)
        if note is not None and keep_newest(private, note, self._terms):
            warn("private_events_left_out", up_to=private.spent, reason="they were published from another state")
            if learner.publication.number:
                learner.publication = learner.snapshot(max(learner.publication.number, note.publication))
        self._since, self._noted = private.spent, note.spent if note is not None else 0

    def before_publication(self, learner: Learner) -> None:
        """Put the ledger on disk, before a peer can read what it stands for."""
        private = learner.private
        if private is None:
            return
        if private.exhausted and not self._said:
            self._said = True
            warn("privacy_budget_spent", windows=private.ledger.windows, total_epsilon=private.privacy.total_epsilon)
        if private.spent > self._noted:
            write_note(self._folder, private, self._terms, self._since, learner.publication.number)
            self._noted = private.spent

    def after_checkpoint(self, learner: Learner) -> None:
        """Note that the state is on disk."""
        if learner.private is not None:
            self._since = learner.private.spent
