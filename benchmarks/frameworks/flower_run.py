"""Flower: FedAvg over all edges, in its simulation on Ray.

There are as many client workers as cores, one core and one torch thread each. Clients keep the work in the memory of
their worker, there is no evaluation, and telemetry and logging are off. A client trains on the next twenty batches of
its stream in each round. The first round, in which workers import torch and load the work, is start-up.
"""

import logging
import os
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.frameworks import BATCH
from benchmarks.frameworks.averaging import (
    PERIOD,
    answer,
    arguments,
    load_once,
    mean_squared_error,
    network,
    train,
)
from benchmarks.frameworks.stopwatch import Stopwatch


def fit(message: Any, context: Any) -> Any:
    """Train the global model on the next batches of one edge."""
    config = message.content["config"]
    work = load_once(config["file"])
    module = network(work.inputs.shape[1])
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(module, work.period(context.node_config["partition-id"], config["server-round"]))
    metrics = MetricRecord({"num-examples": PERIOD * BATCH})
    return Message(RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics}), reply_to=message)


def count(replies: Any, _: str) -> Any:
    """Return how many edges have trained in a round."""
    return MetricRecord({"edges": len(replies)})


def main() -> None:
    """Measure and answer."""
    file, rounds = arguments()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    work = load_once(str(file))
    module = network(work.inputs.shape[1])
    cores = len(os.sched_getaffinity(0))
    watch = Stopwatch()
    results: list[Any] = []

    def note_time(number: int, _: Any) -> None:
        if number == 1:
            watch.start()
        elif number == 1 + rounds:
            watch.stop()

    def serve(grid: Any, _: Context) -> None:
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=work.edges,
            min_available_nodes=work.edges,
            train_metrics_aggr_fn=count,
        )
        results.append(
            strategy.start(
                grid=grid,
                initial_arrays=ArrayRecord(module.state_dict()),
                num_rounds=1 + rounds,
                train_config=ConfigRecord({"file": str(file)}),
                evaluate_fn=note_time,
            )
        )

    clients, server = ClientApp(), ServerApp()
    clients.train()(fit)
    server.main()(serve)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": cores}}
    run_simulation(server, clients, num_supernodes=work.edges, backend_config=resources)
    trained = [metrics["edges"] for metrics in results[0].train_metrics_clientapp.values()]
    if trained != [work.edges] * (1 + rounds):
        raise RuntimeError(f"of {work.edges} edges, these have trained in each round: {trained}")
    module.load_state_dict(results[0].arrays.to_torch_state_dict())
    answer(rounds * work.edges * PERIOD, watch, cores, mean_squared_error(module, work))


if __name__ == "__main__":
    main()
