"""Everything that was acknowledged is in the journal, once, in the order of arrival, even if the process is killed."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alphaedge.edge.store.journal import CleanUp, FeedbackResult, Journal
from alphaedge.errors import JournalError


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "data" / "journal.db")


def labels(journal: Journal, after: int = 0) -> list[tuple[bytes, float]]:
    return [(one.features, one.label) for one in journal.labelled(after, 1000)]


def clean_up(
    journal: Journal, before: float, learned: int = 0, *, negative: bool = False, now: float = 0.0, limit: int = 500
) -> tuple[int, int]:
    """Clean up until there is nothing more to do; return how many predictions expired and were dropped."""
    steps = [journal.clean_up(before, learned, negative=negative, now=now, limit=limit)]
    while steps[-1].more:
        steps.append(journal.clean_up(before, learned, negative=negative, now=now, limit=limit))
    return sum(step.expired for step in steps), sum(step.dropped for step in steps)


def test_feedback_finds_its_features_in_the_order_of_arrival(journal: Journal) -> None:
    one, two, three = journal.record_predictions([b"a", b"b", b"c"], [0.5] * 3, now=1.0)
    journal.record_feedback([(three, 1.0)], now=2.0)
    journal.record_feedback([(one, 0.0), (two, 0.5)], now=3.0)
    assert labels(journal) == [(b"c", 1.0), (b"a", 0.0), (b"b", 0.5)]
    first = journal.labelled(0, 1)[0]
    assert (first.predicted_at, first.labelled_at) == (1.0, 2.0)
    assert labels(journal, after=first.number) == [(b"a", 0.0), (b"b", 0.5)]


def test_sending_feedback_again_changes_nothing(journal: Journal) -> None:
    (one,) = journal.record_predictions([b"a"], [0.5], now=1.0)
    assert journal.record_feedback([(one, 1.0), (one, 0.0)], now=2.0)[1] == FeedbackResult(one, False, "known")
    assert journal.record_feedback([(one, 0.0)], now=3.0) == [FeedbackResult(one, False, "known")]
    assert labels(journal) == [(b"a", 1.0)]


def test_a_withdrawn_prediction_is_gone_unless_it_has_a_label(journal: Journal) -> None:
    one, two, _ = journal.record_predictions([b"a", b"b", b"c"], [0.5] * 3, now=1.0)
    journal.record_feedback([(one, 1.0)], now=2.0)
    assert journal.withdraw([one, two]) == 1
    assert journal.pending() == 1
    assert clean_up(journal, before=5.0, negative=True, now=6.0) == (1, 0)
    assert labels(journal) == [(b"a", 1.0), (b"c", 0.0)]
    assert journal.record_feedback([(two, 1.0)], now=7.0) == [FeedbackResult(two, False, "expired")]


def test_ids_that_were_never_given_are_unknown(journal: Journal) -> None:
    (one,) = journal.record_predictions([b"a"], [0.5], now=1.0)
    found = journal.record_feedback([(one + 1, 1.0), (0, 1.0), (-5, 1.0), (one, 1.0)], now=2.0)
    assert [o.reason for o in found] == ["unknown", "unknown", "unknown", ""]
    assert labels(journal) == [(b"a", 1.0)]


def test_a_prediction_that_expires_is_dropped_or_labelled_0(journal: Journal) -> None:
    one, two = journal.record_predictions([b"a", b"b"], [0.5] * 2, now=1.0)
    (three,) = journal.record_predictions([b"c"], [0.5], now=5.0)
    journal.record_feedback([(two, 1.0)], now=6.0)
    assert clean_up(journal, before=4.0, now=7.0) == (1, 0)
    assert journal.record_feedback([(one, 1.0)], now=8.0) == [FeedbackResult(one, False, "expired")]
    assert (journal.expired(), journal.pending()) == (1, 1)
    assert clean_up(journal, before=6.0, negative=True, now=9.0) == (1, 0)
    assert journal.record_feedback([(three, 1.0)], now=9.0) == [FeedbackResult(three, False, "known")]
    assert labels(journal) == [(b"b", 1.0), (b"c", 0.0)]
    assert journal.pending() == 0


def test_only_old_feedback_that_was_learned_is_dropped(journal: Journal) -> None:
    old = journal.record_predictions([b"a", b"b"], [0.5] * 2, now=1.0)
    new = journal.record_predictions([b"c"], [0.5], now=9.0)
    journal.record_feedback([(p, 1.0) for p in (*old, *new)], now=10.0)
    first = journal.labelled(0, 1)[0].number
    assert clean_up(journal, before=5.0, learned=first) == (0, 1)
    assert labels(journal) == [(b"b", 1.0), (b"c", 1.0)], "b is old but not learned"
    assert clean_up(journal, before=5.0, learned=journal.last_feedback()) == (0, 1)
    assert labels(journal) == [(b"c", 1.0)], "c is learned, but may be sent again"
    assert journal.record_feedback([(old[0], 0.0)], now=11.0) == [FeedbackResult(old[0], False, "expired")]
    assert journal.record_predictions([b"d"], [0.5], now=12.0)[0] > new[0], "numbers are never given twice"


def test_numbers_go_on_after_everything_was_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    ids = journal.record_predictions([b"a", b"b"], [0.5] * 2, now=1.0)
    journal.record_feedback([(p, 1.0) for p in ids], now=1.0)
    newest = journal.last_feedback()
    assert clean_up(journal, before=9.0, learned=newest) == (0, 2)
    journal.close()
    journal = Journal(tmp_path / "j.db")
    assert journal.last_feedback() == newest
    (three,) = journal.record_predictions([b"c"], [0.5], now=2.0)
    assert three > max(ids)
    journal.record_feedback([(three, 1.0)], now=2.0)
    assert journal.labelled(newest, 10)[0].features == b"c"


def test_a_clean_up_goes_in_small_steps_and_does_not_look_at_anything_twice(journal: Journal) -> None:
    ids = journal.record_predictions([b"%d" % i for i in range(100)], [0.5] * 100, now=1.0)
    journal.record_feedback([(p, 1.0) for p in reversed(ids)], now=2.0)
    journal.record_predictions([b"young"], [0.5], now=9.0)
    steps = [journal.clean_up(5.0, 60, negative=False, now=9.0, limit=10) for _ in range(12)]
    assert [step.more for step in steps] == [True] * 10 + [False] * 2
    assert max(step.dropped for step in steps) <= 20, "of a step, ten for each mark"
    assert sum(step.dropped for step in steps) == 60
    assert {x.number for x in journal.labelled(0, 1000)} == set(range(61, 101)), "those that were not learned"
    reads: list[str] = []
    journal._db.set_trace_callback(reads.append)
    assert journal.clean_up(5.0, 60, negative=False, now=9.0) == CleanUp(0, 0, more=False)
    journal._db.set_trace_callback(None)
    assert [r for r in reads if r.startswith("select p.id")] == [
        "select p.id, f.number, p.time from prediction p left join feedback f on f.prediction = p.id "
        f"where p.id > {ids[-1]} order by p.id limit 500"
    ], "it goes on behind what is old already, though not yet learned"


def test_a_clean_up_finds_its_rows_by_their_numbers(journal: Journal) -> None:
    """No statement of a clean-up reads a whole table or sorts one."""
    reads: list[str] = []
    journal._db.set_trace_callback(reads.append)
    (one,) = journal.record_predictions([b"a"], [0.5], now=1.0)
    journal.record_feedback([(one, 1.0)], now=2.0)
    reads.clear()
    assert journal.clean_up(5.0, 1, negative=False, now=9.0).dropped == 1
    journal._db.set_trace_callback(None)
    reads = [r for r in reads if r.startswith(("select", "delete", "update"))]
    assert len(reads) >= 6
    for text in reads:
        plan = [row[3] for row in journal._db.execute(f"explain query plan {text}")]
        assert not [step for step in plan if step.startswith("SCAN") or "TEMP" in step], (text, plan)


def test_feedback_that_must_be_learned_again_is_kept(journal: Journal) -> None:
    ids = journal.record_predictions([b"a", b"b", b"c"], [0.5] * 3, now=1.0)
    journal.record_feedback([(p, 1.0) for p in ids], now=2.0)
    assert clean_up(journal, before=0.5, learned=3) == (0, 0), "all are learned, none is old"
    assert clean_up(journal, before=5.0, learned=1) == (0, 1), "the learner lost its checkpoints, and learned one again"
    assert labels(journal) == [(b"b", 1.0), (b"c", 1.0)]
    assert clean_up(journal, before=5.0, learned=3) == (0, 2)


VERSION_1 = """
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
insert into state values ('expired', 7);
insert into prediction values (3, 1.0, 0, x'61', 0.5), (4, 2.0, 0, x'62', 0.5), (9, 8.0, 0, x'63', 0.5);
insert into feedback values (5, 4, 1.0, 3.0);
pragma user_version = 1;
"""


def test_a_journal_of_the_first_version_is_carried_over(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "j.db")) as db:
        db.executescript(VERSION_1)
    reader = Journal(tmp_path / "j.db", readonly=True)
    assert labels(reader) == [(b"b", 1.0)], "a reader need not wait for the writer"
    reader.close()
    for _ in range(2):  # and opened again
        journal = Journal(tmp_path / "j.db")
        assert (journal.expired(), journal.pending(), journal.latest_time()) == (7, 2, 8.0)
        assert (journal.last_prediction(), journal.last_feedback()) == (9, 5)
        journal.close()
    journal = Journal(tmp_path / "j.db")
    assert clean_up(journal, before=5.0, learned=5) == (1, 1)
    assert (journal.expired(), journal.pending()) == (8, 1)
    assert journal.record_predictions([b"d"], [0.5], now=9.0) == [10]


def test_what_the_home_model_alone_predicted_is_kept_beside_a_prediction(journal: Journal) -> None:
    ids, _ = journal.write([b"a", b"b"], [0.5, 0.6], (), 1.0, alone=[0.25, 0.75])
    ids += journal.record_predictions([b"c"], [0.7], now=2.0)
    journal.record_feedback([(i, 1.0) for i in ids], now=3.0)
    assert [(one.output, one.alone) for one in journal.labelled(0, 9)] == [(0.5, 0.25), (0.6, 0.75), (0.7, None)]


def test_a_reader_sees_what_a_writer_has_acknowledged(tmp_path: Path) -> None:
    writer = Journal(tmp_path / "j.db")
    reader = Journal(tmp_path / "j.db", readonly=True)
    for round_ in range(3):
        (one,) = writer.record_predictions([b"%d" % round_], [0.5], now=1.0)
        writer.record_feedback([(one, 1.0)], now=1.0)
        assert labels(reader)[-1] == (b"%d" % round_, 1.0)
    with pytest.raises(JournalError, match="nothing was written"):
        reader.record_predictions([b"x"], [0.5], now=1.0)


OPENER = """
import sys
from pathlib import Path
from alphaedge.edge.store.journal import Journal
journal = Journal(Path(sys.argv[1]))
(one,) = journal.record_predictions([b"a"], [0.5], now=1.0)
journal.record_feedback([(one, 1.0)], now=1.0)
print("written", flush=True)
sys.stdin.readline()
journal.close()
"""


@pytest.mark.parametrize("state", ["open", "killed", "closed"])
def test_a_traceless_reader_leaves_every_file_as_it_was(state: str, tmp_path: Path) -> None:
    """SQLite's own readers make or change files beside a journal."""
    path = tmp_path / "j.db"
    words = [sys.executable, "-c", OPENER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        if state == "killed":
            writer.kill()
            writer.wait()
        elif state == "closed":
            writer.communicate("close\n")
        before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
        assert len(before) == (1 if state == "closed" else 3)
        reader = Journal(path, readonly=True, traceless=True)
        assert labels(reader) == [(b"a", 1.0)]
        reader.close()
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
        writer.kill()


def test_a_traceless_reader_refuses_a_copy_without_what_was_written_last(tmp_path: Path) -> None:
    writer = Journal(tmp_path / "a" / "j.db")
    writer.record_predictions([b"a"], [0.5], now=1.0)
    (tmp_path / "b").mkdir()
    for name in ("j.db", "j.db-wal"):
        shutil.copy(tmp_path / "a" / name, tmp_path / "b" / name)
    with pytest.raises(JournalError, match=r"j\.db-shm is missing beside j\.db-wal"):
        Journal(tmp_path / "b" / "j.db", readonly=True, traceless=True)


def test_a_full_disk_is_reported_and_nothing_is_half_written(journal: Journal) -> None:
    pages = journal._db.execute("pragma page_count").fetchone()[0]
    journal._db.execute(f"pragma max_page_count = {pages + 2}")
    with pytest.raises(JournalError, match=r"nothing was written .*full"):
        journal.record_predictions([b"x" * 1000] * 100, [0.5] * 100, now=1.0)
    assert journal.pending() == 0
    journal._db.execute("pragma max_page_count = 1000000")
    assert len(journal.record_predictions([b"x" * 1000] * 100, [0.5] * 100, now=1.0)) == 100


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    path.write_bytes(b"this is no database, but it is long enough to look like one" * 50)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="can't be opened"):
        Journal(path)
    assert path.read_bytes() == before
    with pytest.raises(JournalError, match="there is no journal"):
        Journal(tmp_path / "none.db", readonly=True)


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    with sqlite3.connect(tmp_path / "j.db") as db:
        db.execute("pragma user_version = 9")
    with pytest.raises(JournalError, match="version 9"):
        Journal(tmp_path / "j.db")


WRITER = """
import sys
import tempfile
from pathlib import Path
from alphaedge.edge.store.journal import Journal
journal = Journal(Path(sys.argv[1]))
for i in range(10**9):
    ids = journal.record_predictions([b"%d" % i], [0.5], now=float(i))
    print("p", ids[0], i, flush=True)
    journal.record_feedback([(ids[0], float(i % 2))], now=float(i))
    print("f", ids[0], i, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: dict[str, set[tuple[int, int]]] = {"p": set(), "f": set()}
    rng = random.Random(0)
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "j.db")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _line in range(rng.randint(1, 60)):
            kind, prediction, i = process.stdout.readline().split()
            acknowledged[kind].add((int(prediction), int(i)))
        os.kill(process.pid, signal.SIGKILL)
        for line in process.stdout.read().splitlines():
            kind, prediction, i = line.split()
            acknowledged[kind].add((int(prediction), int(i)))
        process.wait()
    journal = Journal(tmp_path / "j.db")
    found = set(journal._db.execute("select id, cast(features as text) from prediction"))
    assert {(p, str(i)) for p, i in acknowledged["p"]} <= found
    labelled_ids = {row[0] for row in journal._db.execute("select prediction from feedback")}
    assert {p for p, _ in acknowledged["f"]} <= labelled_ids
    labelled = journal.labelled(0, 10**6)
    assert [one.number for one in labelled] == sorted({one.number for one in labelled})


class AgainstAList(RuleBasedStateMachine):
    """A journal beside the plainest model of one: dictionaries and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = Journal(Path(tempfile.mkdtemp(dir=os.environ["PYTEST_JOURNALS"])) / "j.db")
        self.waiting: dict[int, bytes] = {}
        self.labelled: list[tuple[bytes, float]] = []
        self.times: dict[bytes, float] = {}  # of all predictions
        self.clock = self.before = 0.0

    @rule(count=st.integers(0, 3))
    def predict(self, count: int) -> None:
        self.clock += 1
        features = [os.urandom(4) for _ in range(count)]
        self.times |= dict.fromkeys(features, self.clock)
        self.waiting |= dict(
            zip(self.journal.record_predictions(features, [0.5] * len(features), self.clock), features, strict=True)
        )

    @rule(prediction=st.integers(-1, 30), label=st.sampled_from([0.0, 1.0]))
    def tell(self, prediction: int, label: float) -> None:
        (found,) = self.journal.record_feedback([(prediction, label)], self.clock)
        assert found.accepted == (prediction in self.waiting)
        if found.accepted:
            self.labelled.append((self.waiting.pop(prediction), label))

    @rule(negative=st.booleans(), age=st.integers(0, 3), learned=st.integers(0, 20), limit=st.integers(1, 4))
    def clean_up(self, negative: bool, age: int, learned: int, limit: int) -> None:
        self.before = before = max(self.before, self.clock - age)  # a window moves on
        last = self.journal.last_feedback()
        numbers = [x.number for x in self.journal.labelled(0, 10_000)]
        expired, dropped = clean_up(
            self.journal, before, min(learned, last), negative=negative, now=self.clock, limit=limit
        )
        late = [p for p in sorted(self.waiting) if self.times[self.waiting[p]] < before]
        kept = [
            one
            for number, one in zip(numbers, self.labelled, strict=True)
            if number > learned or self.times[one[0]] >= before
        ]
        assert (expired, dropped) == (len(late), len(self.labelled) - len(kept))
        self.labelled = kept
        for prediction in late:
            features = self.waiting.pop(prediction)
            if negative:
                self.labelled.append((features, 0.0))

    @invariant()
    def feedback_is_kept_in_its_order(self) -> None:
        assert [(x.features, x.label) for x in self.journal.labelled(0, 10_000)] == self.labelled
        assert self.journal.pending() == len(self.waiting)


@pytest.fixture(autouse=True)
def _journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_JOURNALS", str(tmp_path))


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
