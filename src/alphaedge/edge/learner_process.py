"""The learning process itself: ``python -m alphaedge.edge.learner_process CONFIG``, started by ``alphaedge edge serve``."""

import asyncio
import ctypes
import datetime as dt
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Final

import torch

from alphaedge.edge import log
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.cores import pin_process
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.learning.loop import NAP, LearningLoop
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.store.lock import Lock
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer
from alphaedge.edge.trust.credentials import CertificateCredentials, Credentials, InsecureCredentials
from alphaedge.edge.trust.policy_file import PolicyFile
from alphaedge.errors import AlreadyRunning

PR_SET_PDEATHSIG: Final = 1  # of Linux' prctl
LOOK: Final = 0.5  # seconds between two looks whether the server is still there


async def run(path: Path, *, insecure: bool, server: int) -> None:
    """Learn until told to stop, or until the server that started this, a process, is gone."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = load(path)
    watching = asyncio.create_task(_while_watched(stop, server))
    alone = await _turn(path.parent / config.data / "learner.lock", stop)
    if alone is None:
        return
    learning = LearningLoop(config, path.parent)
    credentials = _credentials(config, path.parent, insecure=insecure)
    if credentials is not None:
        await _among_others(config, path.parent, learning, credentials, stop)
    else:
        while not stop.is_set():
            await asyncio.sleep(0 if learning.alone() else NAP)
            if learning.status_is_old(time.time()):
                learning.report({}, time.time())
    watching.cancel()
    alone.close()


def _credentials(config: EdgeConfig, folder: Path, *, insecure: bool) -> Credentials | None:
    """How this edge knows others; None if it has none."""
    peers = config.peers
    if peers.certificate is not None and peers.key is not None and peers.authority is not None:
        files = (folder / peers.certificate, folder / peers.key, folder / peers.authority)
        return CertificateCredentials(*files, lambda: dt.datetime.now(dt.UTC))
    return InsecureCredentials(config.edge, config.region) if insecure else None


async def _among_others(
    config: EdgeConfig, folder: Path, learning: LearningLoop, credentials: Credentials, stop: asyncio.Event
) -> None:
    peers = config.peers
    policy = PolicyFile(folder / config.policy if config.policy else None)
    server, client = PeerServer(credentials), PeerClient(credentials, time.monotonic)
    port = await server.start(peers.host, peers.port)
    address = peers.address or f"{peers.host}:{port}"
    sys.stdout.write(f"{config.edge} talks to its peers on {credentials.scheme}://{address}\n")
    sys.stdout.flush()
    try:
        directory: Directory
        if peers.nats is None:
            membership = Membership(
                config.edge,
                credentials.verify,
                peers.seeds,
                sign_heartbeat=credentials.sign_heartbeat,
                verify_heartbeat=credentials.verify_heartbeat,
            )
            directory = Gossip(membership, client, time.time, random.Random())
            server.handlers.update(directory.handlers())
        else:
            from alphaedge.edge.directory.nats import NatsDirectory  # needs the extra "nats"

            directory = NatsDirectory(peers.nats, config.edge, credentials)
        network = PeerDriver(
            config,
            learning,
            address=address,
            directory=directory,
            client=client,
            policy=policy,
            credentials=credentials,
        )
        server.handlers.update(network.handlers())
        await network.run(stop)
    finally:
        await client.close()
        await server.stop()


async def _turn(path: Path, stop: asyncio.Event) -> Lock | None:
    """The learner of a server that was killed lives on until it notices; there is never more than one at work."""
    while not stop.is_set():
        try:
            return Lock(path)
        except AlreadyRunning:
            await asyncio.sleep(NAP)
    return None


async def _while_watched(stop: asyncio.Event, server: int) -> None:
    while os.getppid() == server:
        await asyncio.sleep(LOOK)
    stop.set()


def _end_with_the_server() -> None:
    """A server that was killed takes its learner along at once, on Linux; else the learner notices by and by.

    On a busy machine it would not get the time to notice, and it can be killed at any moment without harm.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _give_way() -> None:
    """Run when nobody else wants to: the server comes first. A core that is never idle still gives a little time."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):  # Linux
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """CONFIG, the style of the log, whether edges need no certificates, the server's process, and cores, if any."""
    path, style, insecure, server = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "insecure", int(sys.argv[4])
    cores = [int(word) for word in sys.argv[5:]]
    if cores:
        pin_process(cores)  # not where the server stays, which started this
    torch.set_num_threads(1)
    _end_with_the_server()
    _give_way()
    log.setup(load(path).edge, "learner", "json" if style == "json" else "text")
    try:
        asyncio.run(run(path, insecure=insecure, server=server))
    except Exception:
        log.LOGGER.exception("the learner has failed")
        sys.exit(1)


if __name__ == "__main__":
    main()
