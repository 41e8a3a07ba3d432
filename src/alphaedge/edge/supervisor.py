"""Keeps the learner of an edge running: starts its process, and starts it again when it dies."""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.backoff import Backoff
from alphaedge.edge import log
from alphaedge.edge.config import EdgeConfig

FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 0.5, 30.0  # waits before a learner that has exited is started again
STOP_TIMEOUT_SECONDS: Final = 20.0  # for the learner to stop by itself


@final
@dataclass(frozen=True)
class LearnerCommand:
    """How to start the learner of an edge. folder: of its configuration. cores: those to pin it to; none for any."""

    config: EdgeConfig
    folder: Path
    style: log.Style
    insecure: bool
    cores: frozenset[int] = frozenset()

    def argv(self) -> list[str]:
        """The command line."""
        security = "insecure" if self.insecure else "secure"
        arguments = [str(self.folder), self.style, security, str(os.getpid()), *map(str, sorted(self.cores))]
        return [sys.executable, "-m", "alphaedge.edge.learner_process", *arguments]

    async def start(self) -> asyncio.subprocess.Process:
        """Start the learner. It reads the configuration from its standard input: the file may have changed since."""
        process = await asyncio.create_subprocess_exec(*self.argv(), stdin=asyncio.subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(self.config))
        process.stdin.close()
        return process


async def supervise_learner(command: LearnerCommand) -> None:
    """Run the learner, and start it again whenever it exits: its checkpoint and the journal restore its state."""
    restarts = Backoff(FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS)
    while True:
        began = time.monotonic()
        try:
            process = await command.start()
        except (OSError, MemoryError) as error:  # no descriptor or memory is left now; there may be later
            wait = restarts.failed(began)
            log.warn("learner_start_failed", reason=error, restart_seconds=wait)
            await asyncio.sleep(wait)
            continue
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
            raise
        now = time.monotonic()
        if now - began > MAX_RESTART_SECONDS:
            restarts.succeeded()
        wait = restarts.failed(now)
        log.warn("learner_exited", code=code, restart_seconds=wait)
        await asyncio.sleep(wait)
