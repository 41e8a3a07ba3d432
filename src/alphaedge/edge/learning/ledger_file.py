"""The newest ledger of an edge, on disk before a peer can read what it stands for.

What was published stays published, so this account never goes back, whatever state an edge starts from. A restart from
the checkpoint that came before it takes the same private steps once more, with the same noise, and publishes the same.
From any other state (an older checkpoint, another model, other terms, another version of the program, none at all) that
can't be promised: all events that were in a lot are left out then, and the account goes on where it was.
"""

import hashlib
import importlib.metadata
from dataclasses import asdict
from pathlib import Path
from typing import Final, final

import msgspec
import torch

from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.settings import Privacy
from alphaedge.edge.config import ModelConfig
from alphaedge.edge.learning.private_release import PrivateRelease
from alphaedge.errors import CheckpointError
from alphaedge.files import replace_file

FILE: Final = "privacy.ledger"


@final
class LedgerNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ledger, and what it is about.

    terms: of the promise. since: number of the last event in a lot, in the checkpoint before. spent: the same, now.
    publication: number of what is published now.
    window_seconds: length of the windows. taken: by user, private steps in the window. period, tallied: of tallies.
    """

    terms: str
    since: int
    spent: int
    publication: int
    window_seconds: float
    window: int
    windows: int
    taken: dict[int, int]
    period: int
    tallied: dict[int, int]

    def ledger(self, privacy: Privacy) -> Ledger[int]:
        """The ledger, with windows of the length that the promise has now."""
        window = self.window
        if self.window >= 0 and self.window_seconds != privacy.window_seconds:
            window = privacy.window(self.window * self.window_seconds)
        return Ledger(window, self.windows, dict(self.taken), self.period, dict(self.tallied))


def terms_of(privacy: Privacy, schema: str, model: ModelConfig, secret: bytes) -> str:
    """A name for a promise and all that decides what a private step makes of a lot, and the secret of the noise.

    The programs are part of it: another version may add numbers up in another order, and the same noise on two sums
    that are nearly the same would show what is between them.
    """
    versions = importlib.metadata.version("alphaedge"), str(torch.__version__)
    text = msgspec.json.encode([asdict(privacy), schema, model, versions])
    return hashlib.blake2b(text, key=secret, digest_size=16, person=b"terms").hexdigest()


def write_note(folder: Path, private: PrivateRelease, terms: str, since: int, publication: int) -> None:
    """Put the ledger of what is about to be published on disk."""
    ledger, seconds = private.ledger, private.privacy.window_seconds
    note = LedgerNote(
        terms=terms,
        since=since,
        spent=private.spent,
        publication=publication,
        window_seconds=seconds,
        window=ledger.window,
        windows=ledger.windows,
        taken=ledger.taken,
        period=ledger.period,
        tallied=ledger.tallied,
    )
    replace_file(folder / FILE, msgspec.msgpack.encode(note), durable=True, mode=0o600)


def read_note(folder: Path) -> LedgerNote | None:
    """Read the newest ledger; None if nothing was ever published privately."""
    path = folder / FILE
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=LedgerNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"{path} can't be read ({error}); restore it from a backup") from None


def keep_newest(private: PrivateRelease, note: LedgerNote, terms: str) -> bool:
    """Make a restored state respect the newest ledger; whether events are left out for it."""
    if private.spent == note.spent:
        return False
    if note.terms == terms and private.spent == note.since:
        return False  # the same steps are taken again
    private.ledger, private.spent = note.ledger(private.privacy), max(private.spent, note.spent)
    private.waiting = [examples for examples in private.waiting if examples.first > private.spent]
    return True
