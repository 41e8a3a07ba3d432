"""Predictions per second of an edge's server and of MLServer: same model, parameters, requests, generator and machine.

AlphaEdge does all of its usual work: it turns ids into keys, predicts with the mixed model and the home model, and has
every prediction in its journal, on disk, before it answers; its learner runs. MLServer only predicts. It has its own
environment and its best settings: no metrics, compression or access log, and for each load the fastest of inference in
the server or in a worker, with or without adaptive batching. The servers take turns; the idle ones sleep. The headline
figure is of 32 connections with one example per request, as from many users. Another column compares an edge with
``serve.cores = "separate"``, whose server leaves one core to its learner, with the default.
"""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

import torch

from alphaedge.edge.config import load as load_config
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.store.parameters import ParameterReader
from benchmarks import environments
from benchmarks.common import arguments, median_ratio, report
from benchmarks.live import INFER, MODEL, NAME, SECRET, Edge, bodies, post, ready, wait_for
from benchmarks.load import Load, send

# With a newer uvloop MLServer's workers do not start.
PACKAGES = ("mlserver==1.7.1", "torch==2.13.0", "uvloop<0.22")
ROOT = Path(__file__).parents[1]
LOADS = ((32, 1), (8, 1), (32, 10), (8, 10))  # connections, examples per request; the first is the headline
TOLERANCE = 1e-5


class Options(NamedTuple):
    """Settings of MLServer. workers: inference processes; 0: in the server. batch: its requests; 0: no batching."""

    workers: int
    batch: int

    def __str__(self) -> str:
        return ("worker" if self.workers else "in process") + (", batching" if self.batch else "")


OPTIONS = [Options(workers, batch) for workers in (0, 1) for batch in (0, 32)]
BATCH_SECONDS = 0.002  # that adaptive batching waits for more requests


def export_model(edge: Edge, folder: Path) -> None:
    """Write the edge's model for MLServer: a plain state dict with a row for every id.

    After whole periods of learning alone the mixed model and the home model are the same, so either will do.
    """
    config = load_config(edge.folder / "edge.toml")
    model = initial_model(config)
    ids = [config.model.fields[layout.fields[0]].size for layout in model.tables]
    keys = [[key_of(i, SECRET.encode()) for i in range(size)] for size in ids]
    state = dict(model.module.state_dict())

    def take(version: Any, index: Any) -> None:
        for s in model.dense_layout:
            state[s.name] = version.tensors["mixed.dense"][s.start : s.stop].view(s.shape).clone()
        for name in model.initial_buffers():
            state[name] = version.tensors[f"mixed.buffer.{name}"].clone()
        for t, layout in enumerate(model.tables):
            start, found = model.initial_table(t), version.tensors[f"mixed.{t}"]
            rows = [found[index[t][k]] if k in index[t] else start[k % len(start)] for k in keys[t]]
            for c in layout.slices:
                state[c.name] = torch.stack(rows)[:, c.start : c.stop].reshape(c.shape).clone()

    ParameterReader(edge.folder / "data" / "parameters", model_schema(config, model)).read(take)
    torch.save(state, folder / "model.pt")
    (folder / "model.json").write_text(json.dumps({"fields": MODEL["fields"], "hidden": MODEL["hidden"]}))


@final
class MLServer:
    """MLServer with the exported model."""

    def __init__(self, python: Path, model: Path, folder: Path, options: Options) -> None:
        folder.mkdir(parents=True)
        http, grpc, metrics = _free_ports(3)
        settings = {
            "debug": False,
            "host": "127.0.0.1",
            "http_port": http,
            "grpc_port": grpc,
            "metrics_port": metrics,
            "metrics_endpoint": None,
            "gzip_enabled": False,
            "parallel_workers": options.workers,
        }
        about = {
            "name": NAME,
            "implementation": "benchmarks.mlserver_runtime.DeepFM",
            "max_batch_size": options.batch,
            "max_batch_time": BATCH_SECONDS if options.batch else 0.0,
            "parameters": {"uri": str(model), "version": "1"},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        (folder / "model-settings.json").write_text(json.dumps(about))
        self.address = f"127.0.0.1:{http}"
        self._python, self._folder = python, folder

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Run it; yields its address."""
        command = [str(self._python.with_name("mlserver")), "start", str(self._folder)]
        log = self._folder / "log"
        with log.open("w") as file:
            surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(
                command, cwd=self._folder, env=surroundings, stdout=file, stderr=subprocess.STDOUT
            )

        def up() -> bool:
            return process.poll() is not None or ready(self.address)

        try:
            wait_for(up, f"MLServer ({log})")
            if process.poll() is not None:
                raise RuntimeError(f"MLServer has exited:\n{log.read_text()[-3000:]}")
            yield self.address
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found


def check_same_predictions(edge: str, rival: str) -> None:
    """Check that both give the same predictions; otherwise the comparison means nothing."""
    for body in bodies(5, 20, seed=3):
        one, other = (
            next(o["data"] for o in post(address, INFER, body)["outputs"] if o["name"] == "prediction")
            for address in (edge, rival)
        )
        difference = max(abs(a - b) for a, b in zip(one, other, strict=True))
        if difference > TOLERANCE:
            raise RuntimeError(f"the predictions of the two servers differ by {difference}")


def measure_rate(address: str, connections: int, size: int, seconds: float) -> tuple[float, float]:
    """Measure predictions per second, and the median latency in milliseconds."""
    requests = bodies(500, size, seed=1)
    load = Load(
        address=address, path=INFER, bodies=requests, connections=connections, seconds=seconds, warm_up=seconds / 4
    )
    result = send(load)
    if result.failed:
        raise RuntimeError(f"{address}: {result.failed} requests failed")
    return result.answered * size / result.seconds, statistics.median(filter(None, result.latencies)) * 1e3


def main() -> None:
    """Run the benchmark."""
    default = Path.home() / ".cache" / "alphaedge" / "mlserver"
    args = arguments(
        __doc__ or "", venv={"type": Path, "default": default, "metavar": "DIR", "help": "MLServer's environment"}
    )
    seconds, rounds, loads = (1.0, 2, LOADS[:1]) if args.quick else (5.0, 5, LOADS)
    python = environments.make(args.venv, PACKAGES)
    figures: dict[str, Any] = {"loads": []}
    rows: list[list[str]] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alphaedge-")))
        edge = stack.enter_context(Edge(folder / "edge", batch=50, every=20))
        separate = stack.enter_context(
            Edge(folder / "separate", batch=50, every=20, serve={"port": 0, "cores": "separate"})
        )
        for each in (edge, separate):
            each.teach(5, seed=100)
        export_model(edge, folder)
        rivals: dict[Options, str] = {}
        for options in OPTIONS:
            rival = MLServer(python, folder, folder / f"mlserver-{options.workers}-{options.batch}", options)
            rivals[options] = stack.enter_context(rival.running())
            check_same_predictions(edge.address, rivals[options])
        for connections, size in loads:
            tried = {o: measure_rate(a, connections, size, seconds)[0] for o, a in rivals.items()}
            best = max(tried, key=lambda o: tried[o])
            ours, ours_separate, theirs = [], [], []
            for _ in range(rounds):
                ours.append(measure_rate(edge.address, connections, size, seconds))
                ours_separate.append(measure_rate(separate.address, connections, size, seconds))
                theirs.append(measure_rate(rivals[best], connections, size, seconds))
            ratio = median_ratio([a for a, _ in ours], [b for b, _ in theirs])
            kept = median_ratio([a for a, _ in ours_separate], [b for b, _ in ours])
            mine, other = (statistics.median(x for x, _ in some) for some in (ours, theirs))
            waits = [statistics.median(x for _, x in some) for some in (ours, theirs)]
            figures.setdefault("ratio_to_mlserver", ratio)
            figures["loads"].append(
                {
                    "connections": connections,
                    "examples": size,
                    "ratio": ratio,
                    "separate_over_shared": kept,
                    "alphaedge_predictions_per_second": mine,
                    "mlserver_predictions_per_second": other,
                    "alphaedge_median_ms": waits[0],
                    "mlserver_median_ms": waits[1],
                    "mlserver_options": str(best),
                    "mlserver_tried": {str(o): found for o, found in tried.items()},
                }
            )
            name = f"{connections} connections, {size} per request" + (" (headline)" if not rows else "")
            rows.append([name, f"{mine:,.0f}", f"{other:,.0f}", str(best), f"{ratio:.2f}", f"{kept:.2f}"])
    columns = ["load", "alphaedge", "mlserver", "best options", "ratio", "with separate cores"]
    report("predictions per second", columns, rows, figures, args.json)


if __name__ == "__main__":
    main()
