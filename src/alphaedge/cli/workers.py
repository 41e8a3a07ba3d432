"""From a command's options to the workers that they mean."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from alphaedge.errors import InvalidValue, check_number
from alphaedge.simulation.workers.processes import local_workers
from alphaedge.simulation.workers.protocol import Workers
from alphaedge.simulation.workers.shard_processes import ShardProcesses


@contextmanager
def open_workers(engine: str, ray_address: str | None, jobs: int | None, shards: int = 1) -> Iterator[Workers]:
    """Workers for as long as a command runs. jobs: how many; None is one per core. shards: of each fleet."""
    check_number("shards", shards, low=1, whole=True)
    if shards > 1 and jobs is not None:
        raise InvalidValue("jobs", jobs, "none with --shards, which has a process for each shard")
    if jobs is not None:
        check_number("jobs", jobs, low=1, whole=True)
    if engine == "ray":
        from alphaedge.simulation.workers.ray_workers import ray_workers

        with ray_workers(ray_address, jobs, shards) as workers:
            yield workers
        return
    if ray_address is not None:
        raise InvalidValue("ray_address", ray_address, "no address without --engine ray")
    if shards > 1:
        yield ShardProcesses(shards)
        return
    yield local_workers((os.cpu_count() or 1) if jobs is None else jobs)
