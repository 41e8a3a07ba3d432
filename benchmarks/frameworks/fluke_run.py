"""fluke: FedAvg over all edges, one after the other in one process, which is how fluke simulates.

Models stay in memory and nothing is evaluated. fluke has no streams: an edge trains on the same twenty batches in each
round.
"""

import torch
from torch import nn

from benchmarks.frameworks import BATCH
from benchmarks.frameworks.averaging import (
    PERIOD,
    RATE,
    Work,
    answer,
    arguments,
    mean_squared_error,
    network,
)
from benchmarks.frameworks.stopwatch import Stopwatch
from benchmarks.frameworks.torchvision_import import import_torchvision


class Clock:
    """Measures the time from the end of the first round to the end of the last; fluke calls it."""

    def __init__(self, last: int) -> None:
        self.last, self.watch = last, Stopwatch()

    def end_round(self, round: int) -> None:
        """Start or stop the watch."""
        if round == 1:
            self.watch.start()
        elif round == self.last:
            self.watch.stop()


def main() -> None:
    """Measure and answer."""
    import_torchvision()  # first, since fluke imports it too
    from fluke import FlukeENV
    from fluke.algorithms import CentralizedFL
    from fluke.client import Client
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader
    from fluke.server import Server

    file, rounds = arguments()
    work = Work.load(file)
    torch.manual_seed(0)
    FlukeENV().set_eval_cfg(server=False, locals=False, pre_fit=False, post_fit=False)
    clients = []
    for edge in range(work.edges):
        inputs, labels = work.stream(edge)
        data = FastDataLoader(inputs[: PERIOD * BATCH], labels[: PERIOD * BATCH], num_labels=1, batch_size=BATCH)
        adam = OptimizerConfigurator({"name": torch.optim.Adam, "lr": RATE})
        clients.append(Client(edge, data, None, adam, nn.MSELoss(), local_epochs=1))
    server = Server(network(work.inputs.shape[1]), None, clients)
    federation, clock = CentralizedFL(work.edges, None, {}, clients, server), Clock(1 + rounds)
    federation.attach(clock)
    federation.run(n_rounds=1 + rounds, eligible_perc=1.0)
    answer(rounds * work.edges * PERIOD, clock.watch, 1, mean_squared_error(server.model, work))


if __name__ == "__main__":
    main()
