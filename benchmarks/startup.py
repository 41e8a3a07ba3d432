"""CPU seconds until the package or a command is ready, beside an interpreter that does nothing.

Each is started anew in every round; a figure is the median, over rounds, of the user and system time of the process.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from benchmarks.common import arguments, report

BARE = "python -c pass"


def cpu_seconds(command: list[str]) -> float:
    """Run a command to its end and return the user and system time that it took."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def commands(folder: Path) -> dict[str, Callable[[], list[str]]]:
    """List what is measured; ``edge init`` writes to a new file in ``folder`` each time."""
    python, alphaedge, number = [sys.executable, "-c"], [sys.executable, "-m", "alphaedge"], count()
    return {
        BARE: lambda: [*python, "pass"],
        "import alphaedge": lambda: [*python, "import alphaedge"],
        "alphaedge --help": lambda: [*alphaedge, "--help"],
        "alphaedge status --help": lambda: [*alphaedge, "status", "--help"],
        "alphaedge edge init": lambda: [
            *[*alphaedge, "edge", "init", str(folder / f"{next(number)}.toml")],
            *["--edge", "berlin", "--region", "DE"],
        ],
    }


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "")
    rounds = 2 if args.quick else 11
    with tempfile.TemporaryDirectory() as folder:
        measured = commands(Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in measured}
        for place in range(rounds + 1):  # commands take turns, so that a busy machine is busy for all of them
            for name, command in measured.items():
                spent = cpu_seconds(command())
                if place:  # the first round compiles and fills the disk cache
                    seconds[name].append(spent)
    figures = {name: statistics.median(spent) for name, spent in seconds.items()}
    rows = [[name, f"{spent:.3f}", f"{spent - figures[BARE]:.3f}"] for name, spent in figures.items()]
    report("Start-up", ["command", "CPU seconds", "more than python"], rows, figures, args.json)


if __name__ == "__main__":
    main()
