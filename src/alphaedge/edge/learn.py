"""The learning process itself: ``python -m alphaedge.edge.learn CONFIG``, started by ``alphaedge edge serve``."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import torch

from alphaedge.edge.config import load
from alphaedge.edge.learning import NAP, Learning
from alphaedge.edge.network import Network

LOOK = 0.5  # seconds between two looks whether the server is still there


async def run(path: Path) -> None:
    """Learn until told to stop, or until the server that started this is gone."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = load(path)
    learning = Learning(config, path.parent)
    for wrong in learning.wrong:
        sys.stderr.write(f"checkpoint refused: {wrong}\n")
    watching = asyncio.create_task(_while_watched(stop))
    if config.peers.certificate is not None:
        await Network(config, path.parent, learning).run(stop)
    else:
        while not stop.is_set():
            await asyncio.sleep(0 if learning.alone() else NAP)
    watching.cancel()


async def _while_watched(stop: asyncio.Event) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(LOOK)
    stop.set()


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.nice(10)
    asyncio.run(run(Path(sys.argv[1])))
