"""A replay on the terminal: progress bars, a table that fits 80 columns; and the files of a result."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from alphaedge.replay.figures import save_result
from alphaedge.replay.options import ReplayOptions
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import Replay
from alphaedge.replay.terminal import ProgressBars, result_table

from .virtual_time import FakeEdge, run, stream


async def replay_for(edges: int, seconds: float, down: float = 1e9) -> tuple[Replay, str]:
    """Run a replay for some seconds; return it and what the screen showed."""
    streams = {f"edge {e} of a long name": stream([t / 10 for t in range(100)]) for e in range(edges)}
    clients = {name: FakeEdge(down=[(down, 1e9)] if place == 0 else []) for place, name in enumerate(streams)}
    whole = Replay(streams, clients, ReplayOptions(speed=1.0, per_request=5, batch_size=10), task="classify")
    screen = Console(record=True, width=80, force_terminal=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    with ProgressBars(screen, "AUC") as bars, screen.capture():
        await whole.run(on_progress=bars.update, stop=stop)
    return whole, screen.export_text()


@pytest.mark.parametrize(("edges", "seconds"), [(1, 0.0), (2, 5.0), (13, 60.0)])
def test_the_table_fits_80_columns_and_a_folder_has_a_figure_and_all_numbers(
    edges: int, seconds: float, tmp_path: Path
) -> None:
    whole, _ = run(replay_for(edges, seconds))
    found = whole.result()
    console = Console(width=80, record=True, force_terminal=False)
    with console.capture() as shown:
        console.print(result_table(found))
    assert all(column in shown.get() for column in ("events", "pooled", "req/s", "p50", "p99", "failed", "unsent"))
    save_result(found, tmp_path)
    assert (tmp_path / "replay.png").stat().st_size > 1000
    assert msgspec.json.decode((tmp_path / "summary.json").read_bytes(), type=ReplayResult) == found


def test_the_bars_have_scores_latencies_the_time_left_and_edges_that_are_down() -> None:
    _, screen = run(replay_for(3, 6.0, down=4.0))
    for words in ("all edges", "left", "AUC 0.", " ms", "no answer"):
        assert words in screen, screen


def test_many_edges_share_one_bar() -> None:
    _, screen = run(replay_for(13, 6.0))
    assert "all edges" in screen
    assert "edge 3" not in screen
