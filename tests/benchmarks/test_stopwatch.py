"""Processor time counts what a process has started as well."""

import subprocess
import sys

from benchmarks.frameworks.stopwatch import Stopwatch, cpu_seconds

BUSY = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True)\ninput()"


def test_the_processor_time_of_a_child_counts_while_it_runs_and_after_it() -> None:
    watch = Stopwatch()
    watch.start()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        assert cpu_seconds(child.pid) >= 0.45
        watch.stop()
        running = watch.cpu_seconds
        watch.start()
        child.communicate(b"\n")
    watch.stop()
    assert 0.45 <= running <= watch.cpu_seconds


def test_several_stretches_add_up() -> None:
    watch, found = Stopwatch(), [0.0]
    for _ in range(2):
        watch.start()
        watch.stop()
        found.append(watch.seconds)
    assert found == sorted(set(found))
