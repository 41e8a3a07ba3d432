"""The learner process of an edge: ``python -m alphaedge.edge.learner_process``, started by the server process."""

import asyncio
import datetime as dt
import gc
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import torch

from alphaedge.child_process import end_with_parent
from alphaedge.edge import log
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.cores import pin_process
from alphaedge.edge.directory.exchange import Exchange
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.learning.loop import POLL_INTERVAL_SECONDS, LearningLoop
from alphaedge.edge.peers.driver import PeerDriver
from alphaedge.edge.store.lock import Lock
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer
from alphaedge.edge.trust.credentials import CertificateCredentials, Credentials, InsecureCredentials
from alphaedge.edge.trust.incarnation import Incarnation
from alphaedge.edge.trust.policy_file import DEFAULT_POLICY, PolicyFile
from alphaedge.edge.trust.revocations import REVOKED_FILE
from alphaedge.edge.trust.wire_secrets import WIRE_SECRETS_FILE, WireSecrets, read_first_secret
from alphaedge.errors import AlreadyRunning, RolledBack

EXCLUDE_EVERY_SECONDS: Final = 0.2  # between two checks for edges that are revoked or banned
PARENT_POLL_SECONDS: Final = 0.5  # between two checks that the server is still there


async def run(config: EdgeConfig, folder: Path, *, insecure: bool, server: int) -> None:
    """Learn until SIGTERM or SIGINT, or until the server is gone. server: id of its process."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watching = asyncio.create_task(_stop_without(server, stop))
    lock = await _acquire_lock(folder / config.data / "learner.lock", stop)
    if lock is None:
        return
    learning = LearningLoop(config, folder)
    is_named = config.policy is not None
    policy = PolicyFile(folder / (config.policy or DEFAULT_POLICY), optional=not is_named)
    credentials = _credentials(config, folder, policy, insecure=insecure)
    if credentials is not None:
        name = config.peers.secrets
        first = read_first_secret(folder, config.secret)
        secrets = WireSecrets(first, folder / (name or WIRE_SECRETS_FILE), optional=name is None)
        await _learn_with_peers(config, learning, credentials, policy, secrets, stop)
    else:
        while not stop.is_set():
            await asyncio.sleep(0 if learning.step_alone() else POLL_INTERVAL_SECONDS)
            if learning.status_is_old(time.time()):
                learning.report({}, time.time())
    watching.cancel()
    lock.close()


def _credentials(config: EdgeConfig, folder: Path, policy: PolicyFile, *, insecure: bool) -> Credentials | None:
    """The credentials of this edge; None if it has no peers."""
    peers, data = config.peers, folder / config.data
    if peers.certificate is not None and peers.key is not None and peers.authority is not None:
        return CertificateCredentials(
            folder / peers.certificate,
            folder / peers.key,
            folder / peers.authority,
            lambda: dt.datetime.now(dt.UTC),
            Incarnation(data / "incarnation"),
            policy.ban,
            data / REVOKED_FILE,
        )
    if not insecure:
        return None
    return InsecureCredentials(config.edge, config.region, Incarnation(data / "incarnation"), policy.ban)


async def _learn_with_peers(
    config: EdgeConfig,
    learning: LearningLoop,
    credentials: Credentials,
    policy: PolicyFile,
    secrets: WireSecrets,
    stop: asyncio.Event,
) -> None:
    peers = config.peers
    server = PeerServer(
        credentials, max_connections=peers.max_connections, requests_per_second=peers.max_requests_per_second
    )
    client = PeerClient(credentials, time.monotonic, peers.deadline_seconds)
    learning.status.limit_hits = server.hits.counts
    gc.collect()
    gc.freeze()  # modules are never garbage, and scanning them would hold the event loop for 90 ms
    port = await server.start(peers.host, peers.port)
    address = peers.address or f"{peers.host}:{port}"
    sys.stdout.write(f"{config.edge} talks to its peers on {credentials.scheme}://{address}\n")
    sys.stdout.flush()
    try:
        directory: Directory
        if peers.nats is None:
            exchange = Exchange(Membership(config.edge, credentials, time.time), peers.seeds)
            directory = Gossip(exchange, client, time.monotonic, random.Random())
            server.routes.update(directory.routes())
        else:
            from alphaedge.edge.directory.nats import NatsDirectory  # needs the extra "nats"

            directory = NatsDirectory(peers.nats, config.edge, credentials)
        driver = PeerDriver(
            config,
            learning,
            address=address,
            directory=directory,
            client=client,
            policy=policy,
            credentials=credentials,
            secrets=secrets,
        )
        server.routes.update(driver.routes())
        excluding = asyncio.create_task(_disconnect_excluded(credentials, policy, server, client))
        await driver.run(stop)
        excluding.cancel()
    finally:
        await client.close()
        await server.stop()


async def _disconnect_excluded(
    credentials: Credentials, policy: PolicyFile, server: PeerServer, client: PeerClient
) -> None:
    """Close the connections of edges that are revoked or banned, and those made with a certificate since renewed.

    Nobody else loses more than a connection.
    """
    before = credentials.revocations.number, policy.rules, credentials.incarnation.number
    while True:
        await asyncio.sleep(EXCLUDE_EVERY_SECONDS)
        now = credentials.revocations.number, policy.rules, credentials.incarnation.number
        if now != before:
            before = now
            server.disconnect_refused()
            await client.reconnect()


async def _acquire_lock(path: Path, stop: asyncio.Event) -> Lock | None:
    """Wait for the learner of a server that was killed, which may still run; None if stopped meanwhile."""
    while not stop.is_set():
        try:
            return Lock(path)
        except AlreadyRunning:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
    return None


async def _stop_without(server: int, stop: asyncio.Event) -> None:
    """Stop once the server process is no longer this one's parent."""
    while os.getppid() == server:
        await asyncio.sleep(PARENT_POLL_SECONDS)
    stop.set()


def _lower_priority() -> None:
    """Run when no other process wants the core: the server comes first. A busy core still leaves a little time."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):  # Linux
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Run the learner as ``LearnerCommand`` starts it."""
    folder, style, insecure, server = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "insecure", int(sys.argv[4])
    cores = [int(word) for word in sys.argv[5:]]
    if cores:
        pin_process(cores)  # the server's cores were inherited
    torch.set_num_threads(1)
    # ``_stop_without`` might not get the time to notice, on a busy machine. A kill does no harm at any moment.
    end_with_parent(server, signal.SIGKILL)
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=EdgeConfig)
    if config.serve.learner_priority == "idle":
        _lower_priority()
    log.configure(config.edge, "learner", "json" if style == "json" else "text")
    try:
        asyncio.run(run(config, folder, insecure=insecure, server=server))
    except Exception as error:
        rolled_back = _find_rollback(error)
        if rolled_back is None:
            log.exception("learner_failed")
        else:
            log.warn("rolled_back", reason=rolled_back)
        sys.exit(1)


def _find_rollback(error: BaseException) -> RolledBack | None:
    """The rollback that ended the learner, if one did; alone, or in the group of the tasks that talk to peers."""
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    found = (_find_rollback(part) for part in parts)
    return error if isinstance(error, RolledBack) else next((one for one in found if one is not None), None)


if __name__ == "__main__":
    main()
