"""A directory for large fleets: each edge keeps its signed record in a key-value bucket of a NATS cluster.

The bucket is what an edge reads when it comes; from then on it hears what the others write. Each repeats its record a
few times in ``down_after`` seconds, and whoever is not heard for so long is down. (The bucket forgets such an edge by
itself, but tells nobody.) Every edge hears every other: in a fleet of thousands, ``down_after`` should be a minute.

The cluster is not believed more than anybody else. What is under a key counts only if that edge has signed it, and if
it is not older than what is known. Only a removal has no signature: that nobody removes another's key is up to the
permissions of the server (``server_config``), and who was removed is back with its next sign of life.

Whatever goes wrong, the server, the bucket or the connection, is answered in one way: connect anew, and begin again.
"""

import asyncio
import contextlib
import json
import random
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import urlsplit

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, KeyValueConfig, StorageType
from nats.js.errors import APIError, BucketNotFoundError
from nats.js.kv import KeyValue

from alphaedge.edge.certs import Identity
from alphaedge.edge.config import NatsConfig
from alphaedge.edge.log import say, warn
from alphaedge.edge.records import About, Record, RecordError
from alphaedge.edge.trust import Trust, check_loopback

BEATS: Final = 3  # how often a record is repeated in the time after which its edge would count as down
PATIENCE: Final = 2  # seconds for a connection or an answer
REST: Final = 1.0  # seconds, about, between two attempts to connect
REPLICAS: Final = 3, 1  # of a new bucket: in a cluster, and where there is only one server
FORGET: Final = 7 * 24 * 3600.0  # seconds after which an edge that was not heard is forgotten
FOLDER: Final = "edges."  # what all keys begin with


@final
@dataclass
class _Known:
    """What another edge has said last. heard: when, by the own clock. left: it has removed its key since."""

    value: bytes
    about: About
    heard: float
    left: bool = False


@final
class NatsDirectory:
    """A directory in a NATS cluster. It never keeps the edge waiting: while the cluster is away, the edge is alone."""

    def __init__(self, config: NatsConfig, edge: str, trust: Trust) -> None:
        self._config, self._edge, self._trust = config, edge, trust
        self._context = trust.context(ssl.Purpose.SERVER_AUTH)
        if self._context is None:
            for server in config.servers:
                check_loopback("peers.nats.servers", urlsplit(server).hostname or server)
        self._prefix = f"$KV.{config.bucket}."
        self._own: About | None = None
        self._value = b""
        self._known, self._refused = dict[str, _Known](), dict[str, int]()
        self._task: asyncio.Task[None] | None = None
        self._bucket: KeyValue | None = None  # while there is a connection
        self._wake = asyncio.Event()
        self._leaving = self._away = False
        self._complaint: Exception | None = None

    async def start(self) -> None:
        """See ``Directory``. It does not wait for the cluster."""
        self._task = asyncio.create_task(self._for_ever())

    async def speak(self, record: Record) -> None:
        """See ``Directory``. What is said while the cluster is away is heard when it is back."""
        self._own = self._trust.verify(record)
        self._value = msgspec.msgpack.encode(record)
        self._wake.set()

    def alive(self) -> Mapping[str, About]:
        """See ``Directory``."""
        now = time.monotonic()
        found = {
            edge: known.about
            for edge, known in self._known.items()
            if not (known.left or known.about.gone) and now - known.heard <= self._config.down_after
        }
        if self._own is not None and not self._own.gone:
            found[self._edge] = self._own
        return found

    def refused(self) -> Mapping[str, int]:
        """See ``Directory``."""
        return self._refused

    async def close(self) -> None:
        """See ``Directory``. The own key is removed: the others see at once that this edge has left."""
        task, self._task = self._task, None
        self._leaving = True
        if self._bucket is not None and self._own is not None:
            own = key(self._edge)
            with contextlib.suppress(nats.errors.Error, OSError):
                await (self._bucket.put(own, self._value) if self._own.gone else self._bucket.delete(own))
        if task is not None:
            await _cancelled(task)

    async def _for_ever(self) -> None:
        while True:
            self._complaint = None
            try:
                await self._connected()
            except Exception as error:  # a server and a library may fail in any way: the edge must go on
                if not self._away:
                    warn("the directory is away", servers=self._config.servers, reason=self._complaint or repr(error))
                self._away = True
            await asyncio.sleep(REST * random.uniform(0.5, 1.5))  # not all at once, when a server is back

    async def _connected(self) -> None:
        """One connection, until something is wrong with it."""
        connection = Client()
        try:
            await self._connect(connection)
            await connection.subscribe(f"{self._prefix}{FOLDER}>", cb=self._hear)
            context = connection.jetstream(timeout=PATIENCE)
            self._bucket = bucket = await self._open(context)
            await self._beat(bucket)
            if self._away:
                say("the directory is back", server=connection.connected_url and connection.connected_url.netloc)
            self._away = False
            await self._list(connection, context)
            while connection.is_connected:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._config.down_after / BEATS)
                self._wake.clear()
                await self._beat(bucket)
                old = time.monotonic() - FORGET
                self._known = {edge: known for edge, known in self._known.items() if known.heard > old}
            raise ConnectionError("the connection has ended")
        finally:
            self._bucket = None
            with contextlib.suppress(Exception):  # as above; it is of no use any more
                async with asyncio.timeout(PATIENCE):
                    await connection.close()

    async def _connect(self, connection: Client) -> None:
        await connection.connect(
            list(self._config.servers),
            name=f"alphaedge {self._edge}",
            tls=self._context,
            inbox_prefix=inbox(self._edge),
            allow_reconnect=False,  # one way to begin again is enough
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=PATIENCE,
            error_cb=self._note,
            closed_cb=self._end,
        )
        transport: Any = connection._transport
        if self._context is not None and transport._io_writer.get_extra_info("ssl_object") is None:
            # The client encrypts only if the server, or whoever is in between, says that it wants to.
            raise ConnectionError("the server does not encrypt, though this edge has certificates")

    async def _note(self, error: Exception) -> None:
        self._complaint = error  # what was not permitted is only never answered

    async def _end(self) -> None:
        self._wake.set()

    async def _open(self, context: JetStreamContext) -> KeyValue:
        """The bucket; made if it is not there: in memory, since its edges fill it again by themselves."""
        name, ttl = self._config.bucket, self._config.down_after
        with contextlib.suppress(BucketNotFoundError):
            return await context.key_value(name)
        for replicas in REPLICAS:
            new = KeyValueConfig(bucket=name, ttl=ttl, storage=StorageType.MEMORY, replicas=replicas)
            with contextlib.suppress(APIError):  # too few servers, or another edge was first, with another time
                return await context.create_key_value(new)
        return await context.key_value(name)

    async def _beat(self, bucket: KeyValue) -> None:
        """A sign of life: the record once more, as it was signed."""
        if self._own is not None and not self._leaving:
            await bucket.put(key(self._edge), self._value)

    async def _list(self, connection: Client, context: JetStreamContext) -> None:
        """Read what is in the bucket."""
        address = connection.new_inbox()
        found = await connection.subscribe(address)
        one_of_each = ConsumerConfig(
            deliver_subject=address,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
            ack_policy=AckPolicy.NONE,
            filter_subject=f"{self._prefix}{FOLDER}>",
            num_replicas=1,
            mem_storage=True,
        )
        await context.add_consumer(f"KV_{self._config.bucket}", one_of_each)
        with contextlib.suppress(nats.errors.TimeoutError):  # an empty bucket
            left = 1
            while left:
                message = await found.next_msg(timeout=PATIENCE)
                self._take(message, fresh=False)
                left = message.metadata.num_pending
        await found.unsubscribe()

    async def _hear(self, message: Msg) -> None:
        self._take(message, fresh=True)

    def _take(self, message: Msg, *, fresh: bool) -> None:
        """Believe a record or refuse it. fresh: just written, a sign of life; else read from the bucket."""
        edge, now = message.subject.removeprefix(self._prefix + FOLDER).replace("=", "."), time.monotonic()
        known = self._known.get(edge)
        if edge == self._edge:
            return
        if known is not None and message.data in (b"", known.value):  # removed, or believed already
            if fresh:
                known.left, known.heard = not message.data, now
        elif message.data:
            about = self._believed(message.data, edge)
            if about is not None and (known is None or about.version >= known.about.version):
                self._known[edge] = _Known(message.data, about, now)

    def _believed(self, value: bytes, edge: str) -> About | None:
        try:
            about = self._trust.verify(msgspec.msgpack.decode(value, type=Record))
            if about.edge == edge:
                return about
            reason = f"a record of {about.edge} is under the key of {edge}"
        except msgspec.MsgspecError as error:
            reason = f"a record under the key of {edge} can't be read ({error})"
        except RecordError as error:
            reason = str(error)
        self._refused[reason] = self._refused.get(reason, 0) + 1
        return None


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel until it works: while it connects, the client now and then overhears it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)


def key(edge: str) -> str:
    """An edge's key in the bucket. Names may have dots at any place, which keys may not.

    >>> key("berlin.shop")
    'edges.berlin=shop'
    """
    return FOLDER + edge.replace(".", "=")


def inbox(edge: str) -> str:
    """What answers to an edge are sent under: nobody else may listen there."""
    return "_INBOX." + edge.replace(".", "=")


def server_config(
    edges: Sequence[Identity],
    *,
    certificate: Path,
    key_file: Path,
    authority: Path,
    store: Path,
    listen: str = "0.0.0.0:4222",
    bucket: str = "alphaedge",
) -> str:
    """The configuration of a nats-server for a fleet: an edge may write its own record and read all.

    Who connects shows its certificate; its subject, in the order of RFC 2253, is the name of a user. certificate,
    key_file: of the server itself, issued like an edge's. A cluster needs a ``cluster`` block beside it. After a new
    edge, write it again and tell the servers (``nats-server --signal reload``).
    """
    api = [f"$JS.API.{call}.KV_{bucket}" for call in ("STREAM.INFO", "STREAM.CREATE", "CONSUMER.CREATE")]
    users = [
        {
            "user": f"CN={one.edge},OU={one.region}",
            "permissions": {
                "publish": [f"$KV.{bucket}.{key(one.edge)}", *api],
                "subscribe": [f"$KV.{bucket}.{FOLDER}>", f"{inbox(one.edge)}.>"],
            },
        }
        for one in edges
    ]
    files = {"cert_file": str(certificate), "key_file": str(key_file), "ca_file": str(authority)}
    settings = {
        "listen": listen,
        "tls": {**files, "verify_and_map": True},
        "jetstream": {"store_dir": str(store)},
        "authorization": {"users": users},
    }
    return json.dumps(settings, indent=2) + "\n"
