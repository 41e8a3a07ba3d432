"""The journal: every prediction that feedback may come for, and all feedback, durable before it is acknowledged.

One SQLite file in WAL mode, written by the serving process and read by the learner. A commit is on disk when it
returns (``synchronous = FULL``), so nothing that was acknowledged is lost to ``kill -9`` or a power cut.

- A **prediction** has a number, which is its id for the client, the time, its features and what was answered.
- **Feedback** has a number of its own: the order in which it arrived, which is the order in which it is learned. The
  first outcome of a prediction counts; sending it again changes nothing.
- A prediction whose outcome does not come within ``window`` seconds **expires**: it is dropped, or, where silence
  means no, it becomes feedback with label 0. Either is written down here, as an event like any other, so that whoever
  replays the journal sees the same.
- Features have a **layout**, a number for the fields that they are made of. After a change of the fields what came of
  older predictions is still taken, but nobody with the new layout learns from it.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from alphaedge.errors import JournalError

VERSION: Final = 1
SCHEMA: Final = """
create table prediction (
  id integer primary key autoincrement,
  time real not null,
  layout integer not null,
  features blob not null,
  output real not null
) strict;
create index prediction_time on prediction (time);
create table feedback (
  number integer primary key autoincrement,
  prediction integer not null unique,
  label real not null,
  time real not null
) strict;
create table state (name text primary key, value integer not null) strict;
insert into state values ('expired', 0);
"""


class FeedbackResult(NamedTuple):
    """What became of one piece of feedback."""

    prediction: int
    accepted: bool
    reason: str  # why not
    waited: float = 0.0  # seconds since the prediction, if accepted


class LabelledPrediction(NamedTuple):
    """One prediction with its outcome, in the order of arrival."""

    number: int
    features: bytes
    label: float
    output: float  # what was predicted
    predicted: float  # when
    told: float


@final
class Journal:
    """The journal of one edge. One process writes; any number may read. layout: of features, as written and read."""

    def __init__(self, path: Path, *, layout: int = 0, readonly: bool = False) -> None:
        self.path, self.layout = path, layout
        fresh = not path.exists()
        if fresh and readonly:
            raise JournalError(f"{path}: there is no journal")
        try:
            if not readonly:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Made in one thread and used in another, never in two at once: that is its owner's business.
            mode = "ro" if readonly else "rwc"
            url = f"{path.absolute().as_uri()}?mode={mode}"
            self._db = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)
            if not readonly:
                self._db.execute("pragma journal_mode = wal")
                self._db.execute("pragma synchronous = full")
            self._db.execute("pragma busy_timeout = 5000")
            version = self._db.execute("pragma user_version").fetchone()[0]
            if version == 0 and not readonly:
                self._db.executescript(f"begin; {SCHEMA} pragma user_version = {VERSION}; commit;")
                version = VERSION
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{path}: the journal can't be opened ({error}); restore it, or move it away") from error
        if version != VERSION:
            raise JournalError(f"{path}: the journal has version {version}, and this program reads {VERSION}")

    def predict(self, features: Sequence[bytes], outputs: Sequence[float], now: float) -> list[int]:
        """Note predictions; their ids. They are on disk when this returns."""
        return self.write(features, outputs, (), now)[0]

    def tell(self, outcomes: Iterable[tuple[int, float]], now: float) -> list[FeedbackResult]:
        """Note outcomes of predictions, in this order. What is accepted is on disk when this returns."""
        return self.write((), (), outcomes, now)[1]

    def write(
        self, features: Sequence[bytes], outputs: Sequence[float], outcomes: Iterable[tuple[int, float]], now: float
    ) -> tuple[list[int], list[FeedbackResult]]:
        """Note predictions and outcomes of earlier ones in one commit: one wait for the disk."""
        ids: list[int] = []
        found: list[FeedbackResult] = []
        with _Transaction(self):
            if features:
                start = self.last_prediction() + 1
                ids = list(range(start, start + len(features)))
                rows = [(i, now, self.layout, f, y) for i, f, y in zip(ids, features, outputs, strict=True)]
                self._db.executemany("insert into prediction values (?, ?, ?, ?, ?)", rows)
            for prediction, label in outcomes:
                predicted, reason = self._look(prediction)
                if not reason:
                    self._db.execute("insert into feedback values (null, ?, ?, ?)", (prediction, label, now))
                found.append(FeedbackResult(prediction, not reason, reason, 0.0 if reason else now - predicted))
        return ids, found

    def _look(self, prediction: int) -> tuple[float, str]:
        """When a prediction was made, and why an outcome of it is not accepted, if so."""
        if self._db.execute("select 1 from feedback where prediction = ?", (prediction,)).fetchone():
            return 0.0, "known"
        found = self._db.execute("select time from prediction where id = ?", (prediction,)).fetchone()
        if found:
            return found[0], ""
        return 0.0, "expired" if 0 < prediction <= self.last_prediction() else "unknown"

    def expire(self, before: float, *, negative: bool, now: float, most: int = 500) -> int:
        """End the wait for predictions made before a moment: forget them, or take their silence for a no."""
        waiting = "select id from prediction where time < ? and id not in (select prediction from feedback) limit ?"
        with _Transaction(self):
            late = [row[0] for row in self._db.execute(waiting, (before, most))]
            if negative:
                self._db.executemany("insert into feedback values (null, ?, 0.0, ?)", [(p, now) for p in late])
            else:
                self._db.executemany("delete from prediction where id = ?", [(p,) for p in late])
                self._db.execute("update state set value = value + ? where name = 'expired'", (len(late),))
        return len(late)

    def lessons(self, after: int, most: int) -> list[LabelledPrediction]:
        """Feedback with numbers above ``after``, in order, with what it is about; of this layout alone."""
        text = (
            "select f.number, p.features, f.label, p.output, p.time, f.time "
            "from feedback f join prediction p on p.id = f.prediction "
            "where f.number > ? and p.layout = ? order by f.number limit ?"
        )
        try:
            return [LabelledPrediction(*row) for row in self._db.execute(text, (after, self.layout, most))]
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def asked(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """Ids and features of predictions with ids above ``after``, in order; of this layout alone."""
        text = "select id, features from prediction where id > ? and layout = ? order by id limit ?"
        try:
            return list(self._db.execute(text, (after, self.layout, most)))
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def last_prediction(self) -> int:
        """The id of the latest prediction; 0 if there was none."""
        return self._one("select coalesce(max(seq), 0) from sqlite_sequence where name = 'prediction'")

    def forget(self, learned: int, before: float, most: int = 500) -> int:
        """Drop lessons up to number ``learned`` whose predictions are older than a moment.

        Younger ones stay, so that feedback which is sent again is known.
        """
        done = (
            "select f.prediction from feedback f join prediction p on p.id = f.prediction "
            "where f.number <= ? and p.time < ? order by f.number limit ?"
        )
        with _Transaction(self):
            old = self._db.execute(done, (learned, before, most)).fetchall()
            self._db.executemany("delete from feedback where prediction = ?", old)
            self._db.executemany("delete from prediction where id = ?", old)
        return len(old)

    def pending(self) -> int:
        """Predictions that wait for an outcome."""
        return self._one("select count(*) from prediction where id not in (select prediction from feedback)")

    def newest(self) -> int:
        """The number of the latest feedback; 0 if there was none."""
        return self._one("select coalesce(max(seq), 0) from sqlite_sequence where name = 'feedback'")

    def expired(self) -> int:
        """Predictions that were forgotten because nothing was told of them in time."""
        return self._one("select value from state where name = 'expired'")

    def latest(self) -> float:
        """The latest moment that is written down; 0 if there is none."""
        text = (
            "select max(coalesce((select max(time) from prediction), 0), coalesce((select max(time) from feedback), 0))"
        )
        try:
            return float(self._db.execute(text).fetchone()[0])
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def probe(self) -> None:
        """Write something that means nothing: fails where writing fails."""
        with _Transaction(self):
            # Something else each time: SQLite does not write what has not changed.
            self._db.execute("replace into state values ('probe', random())")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _one(self, text: str) -> int:
        try:
            return int(self._db.execute(text).fetchone()[0])
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error


@final
class _Transaction:
    """All or nothing, on disk at the end; a full disk is said, and leaves everything as it was."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __enter__(self) -> None:
        self._do("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            try:
                self._do("commit")
                return
            except JournalError:
                self._rollback()
                raise
        self._rollback()
        if isinstance(error, sqlite3.Error):
            raise JournalError(f"{self._journal.path}: nothing was written ({error})") from error

    def _do(self, text: str) -> None:
        try:
            self._journal._db.execute(text)
        except sqlite3.Error as error:
            raise JournalError(f"{self._journal.path}: nothing was written ({error})") from error

    def _rollback(self) -> None:
        if self._journal._db.in_transaction:
            self._journal._db.execute("rollback")
