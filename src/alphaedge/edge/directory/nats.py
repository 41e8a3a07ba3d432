"""A directory for large fleets: each edge keeps its signed announcement in a key-value bucket of a NATS cluster.

An edge repeats its announcement a few times in ``down_after_seconds``, each time with a new heartbeat, and all others
receive it. An edge that is not heard for that long counts as down. The bucket serves edges that join: they need not
wait for the next repetition. (It drops silent edges by itself, but does not tell subscribers.) Without it, as while its
servers elect a leader, the edges go on. Every edge receives from every other: in a fleet of thousands,
``down_after_seconds`` should be 60.

The cluster is not trusted more than any peer. The value of a key counts only if the edge of that key has signed it, and
if it is newer than the last one. Only removals are not signed: the permissions of the server keep edges from removing
the keys of others (``nats_server_config``), and an edge that was removed is back with its next repetition.
"""

import asyncio
import contextlib
import math
import random
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, final
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, KeyValueConfig, StorageType
from nats.js.errors import APIError, BucketNotFoundError
from nats.js.kv import KV_DEL, KV_OP

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.beacons import Beacons
from alphaedge.edge.directory.clock_skew import SkewAlarm
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.directory.membership_view import MembershipView
from alphaedge.edge.directory.nats_server_config import (
    INBOX_PREFIX,
    KEY_PREFIX,
    bucket_key,
    edge_of_key,
    news_prefix,
)
from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.credentials import Credentials, check_loopback
from alphaedge.steps import SLICE_SECONDS

REPETITIONS: Final = 3  # of an announcement in ``down_after_seconds``
REQUEST_TIMEOUT_SECONDS: Final = 2  # also for connecting
RETRY_SECONDS: Final = 1.0  # between two attempts to connect, on average, or to restore the bucket
REPLICAS: Final = 3  # of a new bucket, in a cluster
TOO_FEW_SERVERS: Final = (10005, 10074)  # JetStream's codes: no peers for the replicas, and no cluster at all
LAST_OF_EACH_KEY: Final = ConsumerConfig(
    deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, ack_policy=AckPolicy.NONE, num_replicas=1, mem_storage=True
)


@final
class NatsDirectory(MembershipView):
    """A directory in a NATS cluster. It never blocks the edge: while the cluster is away, the edge is alone.

    clock: seconds, of which only differences matter; it never jumps. wall: seconds since 1970, to tell others.
    """

    def __init__(
        self,
        config: NatsConfig,
        edge: str,
        credentials: Credentials,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(Membership(edge, credentials, wall, down_after=config.down_after_seconds), clock)
        self._config, self._edge, self._credentials = config, edge, credentials
        self._skew_alarm, self._slice = SkewAlarm(edge), 0.0
        self._ssl_context = credentials.ssl_context(ssl.Purpose.SERVER_AUTH)
        if self._ssl_context is None:
            for server in config.servers:
                check_loopback("peers.nats.servers", urlsplit(server).hostname or server)
        self._repeat_seconds = config.down_after_seconds / REPETITIONS
        self._beacons = Beacons(self._membership, self._repeat_seconds, random.Random())
        self._subject_prefix = f"$KV.{config.bucket}.{KEY_PREFIX}"
        self._subject, self._news_prefix = f"$KV.{config.bucket}.{bucket_key(edge)}", news_prefix(config.bucket)
        self._task: asyncio.Task[None] | None = None
        self._stream: JetStreamContext | None = None  # while there is a connection
        self._wake, self._bucket_lost = asyncio.Event(), asyncio.Event()
        self._leaving, self._failing, self._unacknowledged = False, False, 0
        self._last_error: Exception | None = None

    async def start(self) -> None:
        """See ``Directory``. Does not wait for the cluster."""
        self._task = asyncio.create_task(self._run())

    async def announce(self, signed: SignedAnnouncement) -> None:
        """See ``Directory``. While the cluster is away, the announcement waits until it is back."""
        self._membership.announce(signed, self._clock())
        self._wake.set()

    async def close(self) -> None:
        """See ``Directory``. Removes this edge's key, so that peers see at once that it has left."""
        self._leaving = True
        if self._stream is not None and self._has_announced:
            removal = {} if self._membership.own.announcement.gone else {KV_OP: KV_DEL}
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._stream.publish(
                    self._subject, b"" if removal else self._beacons.write(self._clock()), headers=removal
                )
        if self._task is not None:
            await cancel_task(self._task)

    async def _run(self) -> None:
        while True:
            self._last_error = None
            try:
                await self._run_connection()
            except Exception as error:  # a server or the library may fail in any way: the edge must go on
                self._report_failure(error)
            # Spread out, so that not all edges connect at once when a server is back.
            await asyncio.sleep(RETRY_SECONDS * random.uniform(0.5, 1.5))

    async def _run_connection(self) -> None:
        """Connect, and repeat the announcement for as long as the connection lasts."""
        connection, keeper = Client(), None
        try:
            await self._connect(connection)
            await connection.subscribe(f"{self._subject_prefix}>", cb=self._receive)
            await connection.subscribe(f"{self._news_prefix}>", cb=self._receive_news)
            self._stream = connection.jetstream(timeout=REQUEST_TIMEOUT_SECONDS)
            keeper = asyncio.create_task(self._keep_bucket(connection, self._stream))
            while connection.is_connected:
                self._wake.clear()
                end = time.monotonic() + self._repeat_seconds
                if self._has_announced and not self._leaving:
                    await self._repeat(self._stream)
                    for news in self._beacons.write_news(self._clock()):
                        await connection.publish(self._news_prefix + bucket_key(self._edge), news)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(end - time.monotonic()):
                        await self._wake.wait()
            raise ConnectionError("the connection has ended")
        finally:
            self._stream = None
            if keeper is not None:
                await cancel_task(keeper)
            with contextlib.suppress(Exception):  # the connection is no longer of use
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                    await connection.close()

    async def _connect(self, connection: Client) -> None:
        await connection.connect(
            list(self._config.servers),
            name=f"alphaedge {self._edge}",
            tls=self._ssl_context,
            inbox_prefix=INBOX_PREFIX + bucket_key(self._edge),
            allow_reconnect=False,  # ``_run`` reconnects
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=REQUEST_TIMEOUT_SECONDS,
            ping_interval=math.ceil(self._repeat_seconds),
            error_cb=self._note_error,
            closed_cb=self._note_close,
        )
        transport: Any = connection._transport
        if self._ssl_context is not None and transport._io_writer.get_extra_info("ssl_object") is None:
            # The client encrypts only if the server, or an attacker in between, asks for it.
            raise ConnectionError("the server does not encrypt, although this edge has certificates")

    async def _note_error(self, error: Exception) -> None:
        self._last_error = error  # a request that is not permitted gets no answer, only this

    async def _note_close(self) -> None:
        self._wake.set()

    @property
    def _has_announced(self) -> bool:
        return self._edge in self._membership.entries

    async def _repeat(self, stream: JetStreamContext) -> None:
        """Publish the announcement with a new heartbeat. Peers receive it even if the bucket does not store it."""
        self._membership.forget(self._clock())
        for event, fields in self._skew_alarm.check(self.skews()):
            warn(event, **fields)
        try:
            await stream.publish(self._subject, self._beacons.write(self._clock()), timeout=self._repeat_seconds)
        except nats.errors.Error as error:
            self._unacknowledged += 1
            self._bucket_lost.set()
            if self._unacknowledged >= REPETITIONS:
                self._report_failure(error)
        else:
            if self._failing:
                info("directory_recovered")
            self._unacknowledged, self._failing, self._last_error = 0, False, None

    async def _keep_bucket(self, connection: Client, stream: JetStreamContext) -> None:
        """Create the bucket if it is missing, and read it: at first, and whenever it does not store what it gets."""
        self._bucket_lost.set()
        while True:
            await self._bucket_lost.wait()
            self._bucket_lost.clear()
            try:
                await self._open_bucket(stream)
                await self._read_bucket(connection, stream)
            except Exception as error:  # as in ``_run``
                self._last_error = error
                self._bucket_lost.set()
            await asyncio.sleep(RETRY_SECONDS)

    async def _open_bucket(self, stream: JetStreamContext) -> None:
        """Create the bucket if it is missing: in memory, since the edges fill it again by themselves."""
        with contextlib.suppress(BucketNotFoundError):
            await stream.key_value(self._config.bucket)
            return
        bucket = KeyValueConfig(self._config.bucket, ttl=self._config.down_after_seconds, storage=StorageType.MEMORY)
        try:
            await stream.create_key_value(bucket.evolve(replicas=REPLICAS))
        except APIError as error:
            if error.err_code not in TOO_FEW_SERVERS:
                raise
            await stream.create_key_value(bucket)

    async def _read_bucket(self, connection: Client, stream: JetStreamContext) -> None:
        inbox = connection.new_inbox()
        subscription = await connection.subscribe(inbox)
        name, keys = f"KV_{self._config.bucket}", f"{self._subject_prefix}>"
        await stream.add_consumer(name, LAST_OF_EACH_KEY, deliver_subject=inbox, filter_subject=keys)
        with contextlib.suppress(nats.errors.TimeoutError):  # the bucket is empty
            pending = 1
            while pending:
                message = await subscription.next_msg(timeout=REQUEST_TIMEOUT_SECONDS)
                await self._receive(message, live=False)
                pending = message.metadata.num_pending
        await subscription.unsubscribe()

    def _report_failure(self, error: Exception) -> None:
        if not self._failing and not self._leaving:
            warn("directory_failed", servers=self._config.servers, reason=self._last_error or repr(error))
        self._failing = True

    async def _receive(self, message: Msg, *, live: bool = True) -> None:
        """Take the value of a key or refuse it. live: just published, not from the bucket."""
        edge = edge_of_key(message.subject.removeprefix(self._subject_prefix))
        await self._yield_in_time()
        if message.data:
            self._beacons.read(edge, message.data, self._clock())
        elif live:
            self._membership.leave(edge)

    async def _receive_news(self, message: Msg) -> None:
        sender = edge_of_key(message.subject.removeprefix(self._news_prefix))
        await self._yield_in_time()
        self._beacons.read_news(sender, message.data, self._clock())

    async def _yield_in_time(self) -> None:
        """Let the event loop run: the client hands over all messages that have arrived without a pause."""
        if time.perf_counter() > self._slice:
            await asyncio.sleep(0)
            self._slice = time.perf_counter() + SLICE_SECONDS


async def cancel_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: while it connects, the client sometimes swallows a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
