"""Count the functions and files that one live aggregation visits: ``python -m tools.walk``.

Three edges run on this machine, get traffic and mix. In the learner of the first, a profile hook notes every function
that runs for an aggregation: from the moment that it is due (``--start`` returns True) to its end (``--end`` returns),
hand-over included, in the task that aggregates, in the tasks that it starts, and in the work that it hands to threads.
What runs beside it, such as gossip or answers to peers, is not counted. The third to the eighth aggregation are taken
together, since one alone does not take every turn.

The count: functions and methods that are defined in the package ``alphaedge``, each once, and the files they are in.
Comprehensions, generator expressions and lambdas belong to the function around them; what ``dataclass`` or ``msgspec``
generates is not counted.

To count another checkout, put its ``src`` first: ``PYTHONPATH=../other/src python -m tools.walk --start ...``.
"""

import argparse
import contextvars
import dis
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

FIRST, LAST = 3, 8  # aggregations that are counted: by then neighbours are known and models held
BATCH_SIZE, AGGREGATE_EVERY = 10, 4
TIMEOUT_SECONDS: Final = 300.0
START, END = "LearningLoop.due", "PeerDriver._finish_round"
EDGE: Final = """edge = "{name}"
region = "DE"

[model]
builtin = "deepfm"
batch_size = {batch_size}
fields = [{{ name = "item", kind = "id", size = 100 }}, {{ name = "numbers", kind = "number", size = 2 }}]

[method]
aggregate_every = {aggregate_every}
peers = 1
adopt_rows = false

[serve]
port = {port}

[peers]
port = {peer_port}
seeds = ["127.0.0.1:{seed}"]
"""
Visit = tuple[str, str]  # a file below the package, and the qualified name of a function


# In the learner.


class Tracer:
    """Notes the functions that aggregations visit, in the order of their first visit."""

    def __init__(self, package: Path, start: str, end: str, out: Path) -> None:
        self._package, self._start, self._end, self._out = str(package) + os.sep, start, end, out
        self._active: contextvars.ContextVar[bool] = contextvars.ContextVar("active", default=False)
        self._seen = 0
        self._visits: dict[Visit, None] = {}

    def install(self) -> None:
        """Watch this thread and all that start later, and let threads inherit the context of who hands them work."""
        submit = ThreadPoolExecutor.submit

        def submit_in_context(
            pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any
        ) -> Future[Any]:
            return submit(pool, contextvars.copy_context().run, work, *args, **kwargs)

        ThreadPoolExecutor.submit = submit_in_context  # type: ignore[assignment, method-assign]
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(self._package):
            return
        if event == "call" and _at_start(frame):
            name = code.co_qualname.partition(".<locals>.<")[0]  # a lambda belongs to the function around it
            if self._active.get() and not name.startswith("<"):
                self._visits.setdefault((code.co_filename[len(self._package) :], name))
        elif event == "return" and code.co_qualname == self._start and result is True and not self._active.get():
            self._seen += 1
            self._active.set(FIRST <= self._seen <= LAST)
        elif event == "return" and code.co_qualname == self._end and self._active.get() and _has_returned(frame):
            self._active.set(False)
            if self._seen == LAST:
                self._write()

    def _write(self) -> None:
        self._out.with_suffix(".part").write_text(json.dumps(list(self._visits)), encoding="utf-8")
        self._out.with_suffix(".part").replace(self._out)


def _at_start(frame: FrameType) -> bool:
    """Whether a frame begins, and is not a coroutine that goes on."""
    code, place = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[place]] == "RESUME" and code[place + 1] == 0


def _has_returned(frame: FrameType) -> bool:
    """Whether a frame ends, and is not a coroutine that waits."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "RETURN_VALUE"


def trace() -> None:
    """Install the tracer. Called at the start of the processes of the edge that is watched."""
    settings = json.loads(os.environ["ALPHAEDGE_WALK"])
    # A learner gives way to everything else; on a busy machine it would not get to its aggregations in time.
    os.nice = lambda _: 0
    os.sched_setscheduler = lambda *_: None
    Tracer(Path(settings["package"]), settings["start"], settings["end"], Path(settings["out"])).install()


# Around it.


def walk(start: str, end: str) -> list[Visit]:
    """Run three edges until the first has finished the aggregations that are counted; their visits."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="walk"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        out = folder / "visits.json"
        ports = [_free_port() for _ in range(6)]
        (folder / "sitecustomize.py").write_text("from tools.walk import trace\n\ntrace()\n", encoding="utf-8")
        watch = json.dumps({"package": str(_package()), "start": start, "end": end, "out": str(out)})
        urls = []
        for place, name in enumerate(("one", "two", "three")):
            path = folder / name / "edge.toml"
            path.parent.mkdir()
            port, peer_port = ports[2 * place : 2 * place + 2]
            path.write_text(
                EDGE.format(
                    name=name,
                    batch_size=BATCH_SIZE,
                    aggregate_every=AGGREGATE_EVERY,
                    port=port,
                    peer_port=peer_port,
                    seed=ports[1],
                ),
                encoding="utf-8",
            )
            stack.enter_context(_edge(path, folder if place == 0 else None, watch))
            urls.append(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + TIMEOUT_SECONDS
        for url in urls:
            _wait(lambda url=url: _ready(url), deadline)  # type: ignore[misc]
        # Step by step, so that models are there to be mixed, however busy the machine is.
        _wait(lambda: all(len(_aggregations(url)) == len(urls) for url in urls), deadline)
        for number in range(1, LAST + 1):
            for url in urls:
                for _ in range(AGGREGATE_EVERY):
                    _send_batch(url)
            _wait(lambda number=number: all(min(_aggregations(url).values()) >= number for url in urls), deadline)  # type: ignore[misc]
        _wait(out.exists, deadline)
        return [(file, function) for file, function in json.loads(out.read_text(encoding="utf-8"))]


@contextmanager
def _edge(config: Path, hook: Path | None, watch: str) -> Iterator[None]:
    """A running edge. hook: a folder that Python imports ``sitecustomize`` from, for the edge that is watched."""
    environment = {**os.environ, "ALPHAEDGE_WALK": watch}
    paths = [str(hook), str(Path(__file__).parent.parent)] if hook else []
    paths.append(str(_package().parent))
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(config), "--insecure"]
    with (config.parent / "log").open("wb") as log:
        edge = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        except TimeoutError:
            sys.stderr.write((config.parent / "log").read_text(encoding="utf-8"))
            raise
        finally:
            edge.terminate()
            edge.wait()


def _package() -> Path:
    import alphaedge

    return Path(alphaedge.__file__).parent


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(until: Callable[[], bool], deadline: float) -> None:
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no aggregation within {TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.1)


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _aggregations(url: str) -> dict[str, int]:
    """How many aggregations each edge has done, as far as one of them knows."""
    with urllib.request.urlopen(f"{url}/fleet") as answer:
        frames = json.load(answer)["frames"]
    seen = {name: view for frame in frames for name, view in frame["edges"].items()}
    return {name: view.get("vitals", {}).get("aggregations", 0) for name, view in seen.items() if view["alive"]}


def _send_batch(url: str) -> None:
    """Predictions for a batch of examples, and their labels."""
    size = BATCH_SIZE
    inputs = [
        {"name": "item", "datatype": "INT64", "shape": [size], "data": list(range(size))},
        {"name": "numbers", "datatype": "FP32", "shape": [size, 2], "data": [[i / size, 1.0] for i in range(size)]},
    ]
    answer = _post(f"{url}/v2/models/model/infer", {"inputs": inputs})
    ids = next(output["data"] for output in answer["outputs"] if output["name"] == "prediction_id")
    _post(f"{url}/v2/models/model/feedback", {"ids": ids, "labels": [float(i % 2) for i in range(size)]})


def _post(url: str, body: dict[str, Any]) -> Any:
    with urllib.request.urlopen(url, json.dumps(body).encode()) as answer:
        return json.load(answer)


def main() -> None:
    """Count, and list the functions file by file in the order of their first visit."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--start", default=START, help="the function that returns True once an aggregation is due")
    options.add_argument("--end", default=END, help="the function that returns when it is over")
    options.add_argument("--json", type=Path, help="write the visits here")
    chosen = options.parse_args()
    visits = walk(chosen.start, chosen.end)
    if chosen.json:
        chosen.json.write_text(json.dumps(visits), encoding="utf-8")
    for file, function in visits:
        sys.stdout.write(f"{file:40} {function}\n")
    files = {file for file, _ in visits}
    sys.stdout.write(f"{len(visits)} functions in {len(files)} files\n")


if __name__ == "__main__":
    main()
