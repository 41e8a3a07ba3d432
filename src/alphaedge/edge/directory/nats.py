"""A directory for large fleets: each edge keeps its signed record in a key-value bucket of a NATS cluster.

Each repeats its record a few times in ``down_after`` seconds, and all others hear it; who is not heard for so long is
down. The bucket is for those who come, that they need not wait. (It forgets the silent by itself, but tells nobody.)
Without it, info while its servers elect a leader, the edges go on. Everybody hears everybody: in a fleet of thousands,
``down_after`` should be a minute.

The cluster is not believed more than anybody else. What is under a key counts only if that edge has signed it, and if
it is not older than what is known. Only a removal has no signature: that nobody removes another's key is up to the
permissions of the server (``nats_config``), and who was removed is back with its next sign of life.
"""

import asyncio
import contextlib
import math
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final
from urllib.parse import urlsplit

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, KeyValueConfig, StorageType
from nats.js.errors import APIError, BucketNotFoundError
from nats.js.kv import KV_DEL, KV_OP

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.membership import count
from alphaedge.edge.directory.nats_server_config import FOLDER, INBOX, key
from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.credentials import Credentials, check_loopback
from alphaedge.errors import AnnouncementError

BEATS: Final = 3  # how often a record is repeated in the time after which its edge would count as down
PATIENCE: Final = 2  # seconds for a connection or an answer
REST: Final = 1.0  # seconds, about, between two attempts to connect
REPLICAS: Final = 3  # of a new bucket, in a cluster
TOO_FEW_SERVERS: Final = 10005, 10074  # what JetStream says then: no peers for them, and no cluster at all
LAST, UNASKED = DeliverPolicy.LAST_PER_SUBJECT, AckPolicy.NONE
ONE_OF_EACH: Final = ConsumerConfig(deliver_policy=LAST, ack_policy=UNASKED, num_replicas=1, mem_storage=True)


@final
@dataclass
class _Known:
    """What another edge has said last. heard: when, by the own clock. left: it has removed its key since."""

    value: bytes
    about: Announcement
    heard: float
    left: bool = False


@final
class NatsDirectory:
    """A directory in a NATS cluster. It never keeps the edge waiting: while the cluster is away, the edge is alone."""

    def __init__(self, config: NatsConfig, edge: str, trust: Credentials) -> None:
        self._config, self._edge, self._trust = config, edge, trust
        self._context = trust.context(ssl.Purpose.SERVER_AUTH)
        if self._context is None:
            for server in config.servers:
                check_loopback("peers.nats.servers", urlsplit(server).hostname or server)
        self._prefix, self._subject = f"$KV.{config.bucket}.{FOLDER}", f"$KV.{config.bucket}.{key(edge)}"
        self._own: Announcement | None = None
        self._value = b""
        self._known, self._refused = dict[str, _Known](), dict[str, int]()
        self._task: asyncio.Task[None] | None = None
        self._stream: JetStreamContext | None = None  # while there is a connection
        self._wake, self._untended = asyncio.Event(), asyncio.Event()
        self._leaving, self._failing, self._unkept = False, False, 0
        self._complaint: Exception | None = None

    async def start(self) -> None:
        """See ``Directory``. It does not wait for the cluster."""
        self._task = asyncio.create_task(self._for_ever())

    async def speak(self, record: SignedAnnouncement) -> None:
        """See ``Directory``. What is said while the cluster is away is heard when it is back."""
        self._own = self._trust.verify(record)
        self._value = msgspec.msgpack.encode(record)
        self._wake.set()

    def alive(self) -> Mapping[str, Announcement]:
        """See ``Directory``."""
        now, down_after = time.monotonic(), self._config.down_after
        heard = {e: k.about for e, k in self._known.items() if not k.left and now - k.heard <= down_after}
        own = {self._edge: self._own} if self._own is not None else {}
        return {edge: about for edge, about in (heard | own).items() if not about.gone}

    def refused(self) -> Mapping[str, int]:
        """See ``Directory``."""
        return self._refused

    async def close(self) -> None:
        """See ``Directory``. The own key is removed: the others see at once that this edge has left."""
        self._leaving = True
        if self._stream is not None and self._own is not None:
            removed = {} if self._own.gone else {KV_OP: KV_DEL}
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._stream.publish(self._subject, b"" if removed else self._value, headers=removed)
        if self._task is not None:
            await cancelled(self._task)

    async def _for_ever(self) -> None:
        while True:
            self._complaint = None
            try:
                await self._connected()
            except Exception as error:  # a server and a library may fail in any way: the edge must go on
                self._fails(error)
            await asyncio.sleep(REST * random.uniform(0.5, 1.5))  # not all at once, when a server is back

    async def _connected(self) -> None:
        """One connection, as long as it lasts."""
        connection, tending, pause = Client(), None, self._config.down_after / BEATS
        try:
            await self._connect(connection, pause)
            await connection.subscribe(f"{self._prefix}>", cb=self._hear)
            self._stream = connection.jetstream(timeout=PATIENCE)
            tending = asyncio.create_task(self._tend(connection, self._stream))
            while connection.is_connected:
                self._wake.clear()
                end = time.monotonic() + pause
                if self._own is not None and not self._leaving:
                    await self._beat(self._stream, pause)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(end - time.monotonic()):
                        await self._wake.wait()
            raise ConnectionError("the connection has ended")
        finally:
            self._stream = None
            if tending is not None:
                await cancelled(tending)
            with contextlib.suppress(Exception):  # it is of no use any more
                async with asyncio.timeout(PATIENCE):
                    await connection.close()

    async def _connect(self, connection: Client, pause: float) -> None:
        await connection.connect(
            list(self._config.servers),
            name=f"alphaedge {self._edge}",
            tls=self._context,
            inbox_prefix=INBOX + key(self._edge),
            allow_reconnect=False,  # one way to begin again is enough
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=PATIENCE,
            ping_interval=math.ceil(pause),
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

    async def _beat(self, stream: JetStreamContext, seconds: float) -> None:
        """A sign of life: the record once more, as it was signed. The others hear it even if the bucket does not."""
        try:
            await stream.publish(self._subject, self._value, timeout=seconds)
        except nats.errors.Error as error:
            self._unkept += 1
            self._untended.set()
            if self._unkept >= BEATS:
                self._fails(error)
        else:
            if self._failing:
                info("the directory works again")
            self._unkept, self._failing, self._complaint = 0, False, None

    async def _tend(self, connection: Client, stream: JetStreamContext) -> None:
        """See that there is a bucket, and read it: at first, and whenever it does not keep what it is given."""
        self._untended.set()
        while True:
            await self._untended.wait()
            self._untended.clear()
            try:
                await self._open(stream)
                await self._list(connection, stream)
            except Exception as error:  # as above
                self._complaint = error
                self._untended.set()
            await asyncio.sleep(REST)

    async def _open(self, stream: JetStreamContext) -> None:
        """Make the bucket if it is not there: in memory, since the edges fill it again by themselves."""
        with contextlib.suppress(BucketNotFoundError):
            await stream.key_value(self._config.bucket)
            return
        new = KeyValueConfig(self._config.bucket, ttl=self._config.down_after, storage=StorageType.MEMORY)
        try:
            await stream.create_key_value(new.evolve(replicas=REPLICAS))
        except APIError as error:
            if error.err_code not in TOO_FEW_SERVERS:
                raise
            await stream.create_key_value(new)

    async def _list(self, connection: Client, stream: JetStreamContext) -> None:
        """Read what is in the bucket."""
        address = connection.new_inbox()
        found = await connection.subscribe(address)
        name, every = f"KV_{self._config.bucket}", f"{self._prefix}>"
        await stream.add_consumer(name, ONE_OF_EACH, deliver_subject=address, filter_subject=every)
        with contextlib.suppress(nats.errors.TimeoutError):  # an empty bucket
            left = 1
            while left:
                message = await found.next_msg(timeout=PATIENCE)
                await self._hear(message, fresh=False)
                left = message.metadata.num_pending
        await found.unsubscribe()

    def _fails(self, error: Exception) -> None:
        if not self._failing and not self._leaving:
            warn("the directory fails", servers=self._config.servers, reason=self._complaint or repr(error))
        self._failing = True

    async def _hear(self, message: Msg, *, fresh: bool = True) -> None:
        """Believe a record or refuse it. fresh: just written, a sign of life; else read from the bucket."""
        edge, now = message.subject.removeprefix(self._prefix).replace("=", "."), time.monotonic()
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

    def _believed(self, value: bytes, edge: str) -> Announcement | None:
        try:
            about = self._trust.verify(msgspec.msgpack.decode(value, type=SignedAnnouncement))
            if about.edge == edge:
                return about
            reason = f"a record of {about.edge} is under the key of {edge}"
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = f"a record under the key of {edge} can't be read ({error})"
        except AnnouncementError as error:
            reason = str(error)
        count(self._refused, reason)
        return None


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel until it works: while it connects, the client now and then overhears it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
