"""Long work in slices: others have their turn in between."""

import asyncio

import pytest

from alphaedge import steps
from alphaedge.steps import Steps, run_at_once, run_in_slices


def work(name: str, count: int, log: list[str]) -> Steps[str]:
    for _ in range(count):
        log.append(name)
        yield
    return name


def test_steps_that_take_no_time_are_taken_at_once() -> None:
    log: list[str] = []
    assert run_at_once(work("a", 3, log)) == "a"
    assert run_at_once(work("b", 0, log)) == "b"
    assert log == ["a", "a", "a"]


def test_others_have_their_turn_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)  # a slice is one step

    async def run(log: list[str]) -> list[str]:
        return await asyncio.gather(run_in_slices(work("a", 3, log)), run_in_slices(work("b", 3, log)))

    log: list[str] = []
    assert asyncio.run(run(log)) == ["a", "b"]
    assert log == ["a", "b", "a", "b", "a", "b"]


def test_with_a_lock_long_work_is_done_one_after_the_other_and_short_work_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)

    async def run(log: list[str]) -> None:
        turn = asyncio.Lock()
        long = [asyncio.create_task(run_in_slices(work(name, 4, log), turn)) for name in "ab"]
        while log.count("a") < 2:
            await asyncio.sleep(0)
        log.append(await run_in_slices(work("short", 0, log), turn))
        await asyncio.gather(*long)

    log: list[str] = []
    asyncio.run(run(log))
    assert log == ["a", "b", "a", "short", "a", "a", "b", "b", "b"]


def test_an_error_in_a_later_slice_is_raised_and_the_turn_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)

    def fail() -> Steps[None]:
        yield
        yield
        raise ValueError("wrong")

    async def run() -> bool:
        turn = asyncio.Lock()
        with pytest.raises(ValueError, match="wrong"):
            await run_in_slices(fail(), turn)
        return turn.locked()

    assert not asyncio.run(run())
