"""``python -m MODULE`` in a fork of a process that has imported torch: an edge starts in a tenth of the time.

The processes are real ones: a server with its learner as its child, each with its own memory and descriptors, which
tests kill and stop. Only the imports, three seconds each, are made once for all tests. The learner is forked too, by
its server, before the server answers anybody. A learner that is started again later is executed, as are the edges of
the demonstration, of the documentation's pages, in network namespaces, and with a clock of their own.
"""

import asyncio
import functools
import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, NoReturn, TextIO, cast, final

NUMBER = struct.Struct("i")  # a process id or an exit code, in a report
LARGEST_REQUEST = 100_000  # bytes: the words and the environment


def can_fork() -> bool:
    """Whether a program can be forked here; a preloaded library, for one, has to be there from the start."""
    return sys.platform == "linux" and "LD_PRELOAD" not in os.environ


@final
class ForkedProcess:
    """``subprocess.Popen`` of ``python -m`` and these words, with a pipe for what it prints."""

    def __init__(self, words: Sequence[str]) -> None:
        request = {"words": list(words), "folder": os.getcwd(), "environment": dict(os.environ)}
        read_output, output = os.pipe()
        self._report, report = os.pipe()
        socket.send_fds(_fork_server(), [json.dumps(request).encode()], [output, 2, report])
        for descriptor in (output, report):
            os.close(descriptor)
        self.stdout: TextIO = os.fdopen(read_output)
        self.pid = self._read()
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout or 0.0)
            self.returncode = self._read()
            os.close(self._report)
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None and not select.select([self._report], [], [], 0)[0]:
            return None
        return self.wait()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        (number,) = NUMBER.unpack(os.read(self._report, NUMBER.size))
        return int(number)


@functools.cache
def _fork_server() -> socket.socket:
    """Start the process to fork from, which ends with this one; the end of its channel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()
    return ours


def _serve_forks(channel: socket.socket) -> None:
    """Fork for every request until the channel is closed."""
    from typer.testing import CliRunner

    from alphaedge.cli import app
    from alphaedge.edge import learner_process, server_process  # noqa: F401

    # Nothing to serve there, but the command has loaded all that it needs.
    CliRunner().invoke(app, ["edge", "serve", "--config", os.devnull])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST_REQUEST, 3)
        if not message:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            channel.close()
            _report_on(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _report_on(request: dict[str, Any], output: int, errors: int, report: int) -> NoReturn:
    """Run the program as a child; write its process id, and its exit code when it has ended."""
    pid = os.fork()
    if pid == 0:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        places = [request["folder"], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        sys.path[:0] = [place for place in places if place and place not in sys.path]
        asyncio.create_subprocess_exec = _ForkedChild.start_first  # type: ignore[assignment]
        _run(request["words"])
    os.closerange(0, report)
    os.write(report, NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    os.write(report, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _run(words: Sequence[str]) -> NoReturn:
    """Run a module as the program of this process, which is a fork, and end with it."""
    gc.freeze()  # what belongs to the parent is never closed here: its descriptors may be others by then
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    random.seed()
    module, *arguments = words
    sys.argv = [module, *arguments]
    sys.modules.pop(module if "." in module else f"{module}.__main__", None)
    code: object = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:
        sys.excepthook(*cast(Any, sys.exc_info()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


_execute = asyncio.create_subprocess_exec


@final
class _ForkedChild:
    """``asyncio.subprocess.Process`` of a learner that was forked."""

    def __init__(self, pid: int, stdin: BinaryIO) -> None:
        self.pid, self.stdin = pid, stdin
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._end)

    @classmethod
    async def start_first(cls, *command: str, stdin: int) -> "_ForkedChild":
        """Fork; from now on execute: the server may have threads, which do not go well with forks."""
        asyncio.create_subprocess_exec = _execute
        _, _, *words = command  # python -m
        sys.stdout.flush()
        assert stdin == subprocess.PIPE
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(read_end, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            _run(words)
        os.close(read_end)
        return cls(pid, os.fdopen(write_end, "wb"))

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        _, status = os.waitpid(self.pid, 0)
        self._ended.set_result(os.waitstatus_to_exitcode(status))

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        if not self._ended.done():
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if not self._ended.done():
            os.kill(self.pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve_forks(socket.socket(fileno=int(sys.argv[1])))
