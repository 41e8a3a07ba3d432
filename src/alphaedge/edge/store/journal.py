"""The journal: predictions and feedback, on disk before a request is acknowledged.

One SQLite file in WAL mode, written by the server and read by the learner. A commit is on disk when it returns
(``synchronous = FULL``), so ``kill -9`` or a power cut loses nothing that was acknowledged.

- A **prediction** has an id, a time, its packed features and its output, and what the home model alone would have
  answered at that moment, if there is one.
- **Feedback** has a number of its own: the order of arrival, in which it is learned. The first label of a prediction
  counts; sending it again changes nothing.
- A prediction without a label **expires** when the feedback window is over: it is dropped, or it becomes feedback with
  label 0. Either is recorded here like any other event, so that a replay of the journal gives the same state.
- Features have a **layout**, a number for the fields that they are made of. After a change of the fields the journal
  still accepts feedback on older predictions, but a learner with the new layout does not read it.
- A prediction that nobody received is **withdrawn**: no label will come, and its silence says nothing.
- **Clean-up** goes through the journal in the order of its two numbers. One mark is the last prediction that is older
  than the feedback window, the other the last feedback that was learned. A prediction leaves when both marks have
  passed it. So a clean-up costs as much as it moves the marks, however much stays. The times of predictions never go
  back, so that their order is that of their ids, and no index on times is needed.
"""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, final

from alphaedge.errors import JournalError

VERSION: Final = 3
NOT_PREDICTED: Final = math.inf  # the output of an event that an edge starts from; predictions are finite
SCHEMA: Final = """
create table prediction (
  id integer primary key autoincrement,
  time real not null,
  layout integer not null,
  features blob not null,
  output real not null,
  alone real
) strict;
create table feedback (
  number integer primary key autoincrement,
  prediction integer not null unique,
  label real not null,
  time real not null
) strict;
create table state (name text primary key, value integer not null) strict;
insert into state values ('expired', 0), ('aged', 0), ('learned', 0);
"""
MIGRATIONS: Final = {  # from each older version to the next; a reader does without
    1: "drop index prediction_time; insert into state values ('aged', 0), ('learned', 0);",
    2: "alter table prediction add column alone real;",
}
CLEAN_UP_ROWS: Final = 500  # that one step looks at for each mark, since predictions wait for it


class FeedbackResult(NamedTuple):
    """Whether the label of one prediction was accepted."""

    prediction: int
    accepted: bool
    reason: str  # known, expired or unknown, if it was not accepted
    lag: float = 0.0  # seconds since the prediction, if it was accepted


class LabelledPrediction(NamedTuple):
    """One prediction with its label. number: of the feedback. Times are in seconds, by the clock of the journal.

    alone: what the home model alone predicted, if there was one.
    """

    number: int
    features: bytes
    label: float
    output: float
    alone: float | None
    predicted_at: float
    labelled_at: float


class CleanUp(NamedTuple):
    """What a step of a clean-up did. dropped: after they were learned. more: whether there may be more to do."""

    expired: int
    dropped: int
    more: bool


@final
class Journal:
    """The journal of one edge. One process writes; any number may read.

    layout: of the features written and read. traceless: only for a reader; it leaves every file as it was, also those
    that SQLite keeps beside the journal, and may see a state that is a moment older.
    """

    def __init__(self, path: Path, *, layout: int = 0, readonly: bool = False, traceless: bool = False) -> None:
        self.path, self.layout = path, layout
        fresh = not path.exists()
        if fresh and readonly:
            raise JournalError(f"{path}: there is no journal")
        try:
            if not readonly:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Opened in one thread and used in another; the owner makes sure that two never use it at once.
            mode = "ro" if readonly else "rwc"
            url = f"{path.absolute().as_uri()}?mode={mode}{_traceless(path) if traceless else ''}"
            self._db = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)
            if not readonly:
                self._db.execute("pragma journal_mode = wal")
                self._db.execute("pragma synchronous = full")
            self._db.execute("pragma busy_timeout = 5000")
            version = self._db.execute("pragma user_version").fetchone()[0]
            if version == 0 and not readonly:
                self._db.executescript(f"begin; {SCHEMA} pragma user_version = {VERSION}; commit;")
                version = VERSION
            while version in MIGRATIONS and not readonly:
                self._db.executescript(f"begin; {MIGRATIONS[version]} pragma user_version = {version + 1}; commit;")
                version += 1
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{path}: the journal can't be opened ({error}); restore it, or move it away") from error
        self._alone = "p.alone" if version > 2 else "null"
        if version != VERSION and not (readonly and version in MIGRATIONS):
            raise JournalError(f"{path}: the journal has version {version}, and this program reads {VERSION}")

    def record_predictions(self, features: Sequence[bytes], outputs: Sequence[float], now: float) -> list[int]:
        """Write predictions and return their ids. They are on disk when this returns."""
        return self.write(features, outputs, (), now)[0]

    def record_feedback(self, labels: Iterable[tuple[int, float]], now: float) -> list[FeedbackResult]:
        """Write labels by prediction id, in this order. Those that are accepted are on disk when this returns."""
        return self.write((), (), labels, now)[1]

    def write(
        self,
        features: Sequence[bytes],
        outputs: Sequence[float],
        labels: Iterable[tuple[int, float]],
        now: float,
        *,
        alone: Sequence[float | None] | None = None,
    ) -> tuple[list[int], list[FeedbackResult]]:
        """Write predictions, and labels of earlier ones, in one commit: one wait for the disk.

        alone: what the home model alone predicted.
        """
        ids: list[int] = []
        results: list[FeedbackResult] = []
        with _Transaction(self):
            if features:
                start = self.last_prediction() + 1
                ids = list(range(start, start + len(features)))
                beside = alone if alone is not None else [None] * len(features)
                made = zip(ids, features, outputs, beside, strict=True)
                rows = [(i, now, self.layout, f, y, z) for i, f, y, z in made]
                self._db.executemany("insert into prediction values (?, ?, ?, ?, ?, ?)", rows)
            for prediction, label in labels:
                predicted_at, reason = self._check_feedback(prediction)
                if not reason:
                    self._db.execute("insert into feedback values (null, ?, ?, ?)", (prediction, label, now))
                results.append(FeedbackResult(prediction, not reason, reason, 0.0 if reason else now - predicted_at))
        return ids, results

    def _check_feedback(self, prediction: int) -> tuple[float, str]:
        """Return the time of a prediction, and the reason why a label of it is refused, if it is."""
        if self._db.execute("select 1 from feedback where prediction = ?", (prediction,)).fetchone():
            return 0.0, "known"
        row = self._db.execute("select time from prediction where id = ?", (prediction,)).fetchone()
        if row:
            return row[0], ""
        return 0.0, "expired" if 0 < prediction <= self.last_prediction() else "unknown"

    def clean_up(
        self, before: float, learned: int, *, negative: bool, now: float, limit: int = CLEAN_UP_ROWS
    ) -> CleanUp:
        """Do one small step of a clean-up.

        Predictions made before a time that have no label expire: they are dropped, or labelled 0 if ``negative``. Those
        with feedback up to number ``learned`` are dropped. Later ones stay, so that feedback which is sent again is
        recognised.
        """
        with _Transaction(self):
            aged, passed = self._mark("aged"), self._mark("learned")
            seen = min(passed, learned)  # a learner that lost its checkpoints learns again
            ageing = self._ageing(aged, before, limit)
            aged_now = ageing[-1][0] if ageing else aged
            late = [(prediction,) for prediction, number in ageing if number is None]
            done = [(prediction,) for prediction, number in ageing if number is not None and number <= seen]
            text = "select number, prediction from feedback where number > ? and number <= ? order by number limit ?"
            newly = self._db.execute(text, (seen, learned, limit)).fetchall()
            done += [(prediction,) for _, prediction in newly if prediction <= aged_now]
            if negative:
                self._db.executemany("insert into feedback values (null, ?, 0.0, ?)", [(p, now) for (p,) in late])
            else:
                self._db.executemany("delete from prediction where id = ?", late)
                if late:
                    self._db.execute("update state set value = value + ? where name = 'expired'", (len(late),))
            self._db.executemany("delete from feedback where prediction = ?", done)
            self._db.executemany("delete from prediction where id = ?", done)
            more = max(len(ageing), len(newly)) == limit
            for name, old, new in (("aged", aged, aged_now), ("learned", passed, newly[-1][0] if newly else seen)):
                if new != old:
                    self._db.execute("update state set value = ? where name = ?", (new, name))
        return CleanUp(len(late), len(done), more)

    def withdraw(self, predictions: Iterable[int]) -> int:
        """Drop predictions that nobody received, unless they have a label; return how many."""
        text = "delete from prediction where id = ?1 and not exists (select 1 from feedback where prediction = ?1)"
        with _Transaction(self):
            return sum(self._db.execute(text, (prediction,)).rowcount for prediction in predictions)

    def _ageing(self, after: int, before: float, limit: int) -> list[tuple[int, int | None]]:
        """Read the predictions above an id that were made before a time, with the numbers of their feedback."""
        text = (
            "select p.id, f.number, p.time from prediction p left join feedback f on f.prediction = p.id "
            "where p.id > ? order by p.id limit ?"
        )
        rows = takewhile(lambda row: row[2] < before, self._db.execute(text, (after, limit)))
        return [(prediction, number) for prediction, number, _ in rows]

    def _mark(self, name: str) -> int:
        return self._one(f"select value from state where name = '{name}'")

    def labelled(self, after: int, limit: int) -> list[LabelledPrediction]:
        """Read predictions with feedback numbers above ``after``, in that order; only those of this layout."""
        text = (
            f"select f.number, p.features, f.label, p.output, {self._alone}, p.time, f.time "
            "from feedback f join prediction p on p.id = f.prediction "
            "where f.number > ? and p.layout = ? order by f.number limit ?"
        )
        try:
            return [LabelledPrediction(*row) for row in self._db.execute(text, (after, self.layout, limit))]
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def predictions(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Read ids and features of predictions with ids above ``after``, in order; only those of this layout."""
        text = "select id, features from prediction where id > ? and layout = ? order by id limit ?"
        try:
            return list(self._db.execute(text, (after, self.layout, limit)))
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def last_prediction(self) -> int:
        """Return the id of the latest prediction; 0 if there is none."""
        return self._one("select coalesce(max(seq), 0) from sqlite_sequence where name = 'prediction'")

    def pending(self) -> int:
        """Count the predictions without a label."""
        return self._one("select (select count(*) from prediction) - (select count(*) from feedback)")

    def last_feedback(self) -> int:
        """Return the number of the latest feedback; 0 if there is none."""
        return self._one("select coalesce(max(seq), 0) from sqlite_sequence where name = 'feedback'")

    def expired(self) -> int:
        """Count the predictions that were dropped because no label arrived in time."""
        return self._mark("expired")

    def latest_time(self) -> float:
        """Return the latest time in the journal; 0 if it is empty."""
        text = (
            "select max(coalesce((select time from prediction order by id desc limit 1), 0), "
            "coalesce((select time from feedback order by number desc limit 1), 0))"
        )
        try:
            return float(self._db.execute(text).fetchone()[0])
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error

    def check_writable(self) -> None:
        """Write a value without meaning; raises ``JournalError`` if the disk refuses it."""
        with _Transaction(self):
            # A different value each time: SQLite does not write a page that has not changed.
            self._db.execute("replace into state values ('probe', random())")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _one(self, text: str) -> int:
        try:
            return int(self._db.execute(text).fetchone()[0])
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{self.path}: the journal can't be read ({error})") from error


def _traceless(path: Path) -> str:
    """How SQLite is to open a journal, so that it makes, changes and removes no file.

    Beside a journal that is open, or whose edge was killed, are the shared memory and the write-ahead log; they are
    read as they are. A reader would make both beside one that was closed, which nobody writes.
    """
    log, shared = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
    if shared.exists():
        return "&readonly_shm=1"
    if log.exists() and log.stat().st_size:
        raise JournalError(f"{path}: {shared.name} is missing beside {log.name}; copy all three files, or none but it")
    return "&immutable=1"


@final
class _Transaction:
    """A block whose writes are all on disk at its end, or none of them. Raises ``JournalError`` if the disk is full."""

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
