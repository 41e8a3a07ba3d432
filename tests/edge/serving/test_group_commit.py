"""Commits of many callers: small requests go first, large ones go on, everybody gets the own results."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from alphaedge.edge.serving.chunk_size import ChunkSize
from alphaedge.edge.serving.group_commit import GroupCommit
from alphaedge.edge.store.journal import Journal
from alphaedge.errors import JournalError

CHUNK = 100


class Commits:
    """A group commit over a new journal, whose model returns the examples themselves, and the sizes of its calls."""

    def __init__(self, folder: Path) -> None:
        self.sizes: list[int] = []
        self.journal = Journal(folder / "j.db")
        self.commits = GroupCommit(self.journal, lambda: 1.0, self.predict, lambda e: [x.tobytes() for x in e])
        self.commits.chunk = ChunkSize(CHUNK)
        self.commits.chunk.note = lambda examples, seconds: None  # type: ignore[method-assign]

    def predict(self, examples: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        self.sizes.append(len(examples))
        if (examples < 0).any():
            raise ValueError("a negative example")
        return examples.astype(np.float32), -examples.astype(np.float32)

    def submit(self, start: int, count: int) -> "asyncio.Task[tuple[list[int], NDArray[np.float32]]]":
        return asyncio.create_task(self.commits.predict(np.arange(start, start + count, dtype=np.int64)))


def run(scenario: Any, folder: Path) -> Any:
    async def main() -> Any:
        commits = Commits(folder)
        try:
            return await scenario(commits)
        finally:
            commits.commits.close()
            commits.journal.close()

    return asyncio.run(main())


def test_a_small_request_is_in_the_next_commit_whatever_waits(tmp_path: Path) -> None:
    async def scenario(commits: Commits) -> None:
        large = [commits.submit(1000 * number, 99) for number in range(20)]
        small = commits.submit(5, 1)
        _, outputs = await small
        assert outputs.tolist() == [5.0]
        assert [task.done() for task in large] == [True] + [False] * 19, "the oldest went with it"
        await asyncio.gather(*large)
        assert max(commits.sizes) == CHUNK

    run(scenario, tmp_path)


def test_a_large_request_goes_on_however_many_small_ones_arrive(tmp_path: Path) -> None:
    async def scenario(commits: Commits) -> None:
        async def keep_sending() -> None:
            while True:
                await asyncio.gather(*(commits.submit(1, 1) for _ in range(2 * CHUNK)))

        flood = asyncio.create_task(keep_sending())
        for number in range(5):
            _, outputs = await commits.submit(1000 * number, CHUNK)
            assert outputs.tolist() == [float(1000 * number + place) for place in range(CHUNK)]
        flood.cancel()
        assert max(commits.sizes) <= CHUNK

    run(scenario, tmp_path)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 250)), min_size=1, max_size=20))
def test_everybody_gets_the_own_results_in_order(sizes: Sequence[tuple[bool, int]]) -> None:
    async def scenario(commits: Commits) -> None:
        asked = [
            (start, commits.submit(1000 * start, count) if predicts else None, count)
            for start, (predicts, count) in enumerate(sizes)
        ]
        labels = [
            asyncio.create_task(
                commits.commits.record_feedback([(10**6 + 1000 * start + i, 1.0) for i in range(count)])
            )
            for start, task, count in asked
            if task is None
        ]
        seen: set[int] = set()
        for start, task, count in asked:
            if task is not None:
                ids, outputs = await task
                assert outputs.tolist() == [float(1000 * start + place) for place in range(count)]
                assert ids == sorted(ids)
                assert not seen & set(ids)
                seen |= set(ids)
        for told in labels:
            assert {result.reason for result in await told} == {"unknown"}
        stored = {i: np.frombuffer(x, np.int64)[0] for i, x in commits.journal.predictions(0, 10**6)}
        assert set(stored) == seen

    with tempfile.TemporaryDirectory() as folder:
        run(scenario, Path(folder))


def test_an_error_reaches_only_the_caller_whose_examples_it_is_about(tmp_path: Path) -> None:
    async def scenario(commits: Commits) -> None:
        asked = [commits.submit(-5 if number in (3, 11) else 10 * number, 2) for number in range(12)]
        told = asyncio.create_task(commits.commits.record_feedback([(10**6, 1.0)]))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert commits.sizes[0] == 24, "they were together at first"
        for number, one in enumerate(found):
            if number in (3, 11):
                assert isinstance(one, ValueError)
            else:
                assert not isinstance(one, BaseException)
                assert one[1].tolist() == [10 * number, 10 * number + 1]
        assert [result.reason for result in await told] == ["unknown"]
        stored = [np.frombuffer(x, np.int64)[0] for _, x in commits.journal.predictions(0, 100)]
        assert stored == [10 * number + place for number in range(12) if number not in (3, 11) for place in (0, 1)]

    run(scenario, tmp_path)


def test_an_error_of_the_disk_reaches_all_callers_of_its_commit(tmp_path: Path) -> None:
    async def scenario(commits: Commits) -> None:
        commits.journal.close()
        asked = [commits.submit(number, 1) for number in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in found] == [JournalError] * 3

    run(scenario, tmp_path)
