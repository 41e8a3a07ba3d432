"""gossipy: each edge pushes its model to a random edge once a round, which averages it with its own and then trains.

A push costs the receiver one average and twenty batches. gossipy has no streams: an edge trains on the same twenty
batches each time. It is given no test set, so that it evaluates nothing, and few time steps in a round.
"""

import copy

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

STEPS_IN_ROUND = 10


class Network(nn.Sequential):
    """The network, with the two methods that gossipy asks of a model."""

    def init_weights(self) -> None:
        """Keep the initial weights, which all edges share."""

    def get_size(self) -> int:
        """Return the number of parameters."""
        return sum(p.numel() for p in self.parameters())


class NoTestSet:
    """All that the simulator asks of a data dispatcher."""

    def has_test(self) -> bool:
        """Say that there is nothing to evaluate on."""
        return False


def main() -> None:
    """Measure and answer."""
    import_torchvision()  # first, since gossipy imports it too
    from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
    from gossipy.model.handler import TorchModelHandler
    from gossipy.node import GossipNode
    from gossipy.simul import GossipSimulator

    file, rounds = arguments()
    work = Work.load(file)
    torch.manual_seed(0)
    handler = TorchModelHandler(
        net=Network(*network(work.inputs.shape[1])),
        optimizer=torch.optim.Adam,
        optimizer_params={"lr": RATE},
        criterion=nn.MSELoss(),
        local_epochs=1,
        batch_size=BATCH,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    )
    everybody = StaticP2PNetwork(work.edges)
    nodes = {}
    for edge in range(work.edges):
        inputs, labels = work.stream(edge)
        data = (inputs[: PERIOD * BATCH], labels[: PERIOD * BATCH])
        nodes[edge] = GossipNode(edge, (data, None), STEPS_IN_ROUND, copy.deepcopy(handler), everybody, sync=True)
    simulator = GossipSimulator(nodes, NoTestSet(), STEPS_IN_ROUND, AntiEntropyProtocol.PUSH)
    simulator.init_nodes()
    simulator.start(n_rounds=1)
    watch = Stopwatch()
    watch.start()
    simulator.start(n_rounds=rounds)
    watch.stop()
    answer(rounds * work.edges * PERIOD, watch, 1, mean_squared_error(nodes[0].model_handler.model, work))


if __name__ == "__main__":
    main()
